// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// The site of the documentation: the Markdown of docs/ as it is, in the order of docs/README.md.
// SITE_BASE is the path below which it is served, "/" by default. With SITE_REPOSITORY, the URL of a branch's files in the
// repository, links to files outside docs/ lead there; without it, they are text.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { slug } from 'github-slugger'
import { defineConfig } from 'vitepress'
import type { Plugin } from 'vite'
import { repositoryMarkdown } from './markdown.mts'
import { navigation, sidebar } from './navigation.mts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const docs = path.join(root, 'docs')
const groups = sidebar(path.join(docs, 'README.md'))

// packages finds what pages import, as Vue, where it is installed, which is not beside the pages.
const packages: Plugin = {
  name: 'packages-of-the-site',
  enforce: 'pre',
  resolveId(source, importer, options) {
    if (!importer?.startsWith(docs) || !/^[\w@]/.test(source)) return null
    return this.resolve(source, fileURLToPath(import.meta.url), { ...options, skipSelf: true })
  },
}

export default defineConfig({
  title: 'Drover',
  description: 'Worker nodes for any Kubernetes cluster, with the resources and contracts of Cluster API',
  srcDir: docs,
  outDir: path.join(root, 'dist', 'site'),
  base: process.env.SITE_BASE || '/',
  rewrites: { 'README.md': 'index.md', 'decisions/README.md': 'decisions/index.md' },
  markdown: {
    anchor: { slugify: slug },
    attrs: { disable: true },
    emoji: { shortcuts: {} },
    defaultHighlightLang: 'sh',
    languageAlias: { promql: 'sql' },
    config: (md) => repositoryMarkdown(md, root, docs, process.env.SITE_REPOSITORY),
  },
  vite: {
    plugins: [packages],
    // mermaid is one large program, loaded by the pages that have a diagram.
    build: { chunkSizeWarningLimit: 4096 },
  },
  themeConfig: {
    search: { provider: 'local' },
    nav: navigation(groups),
    sidebar: groups,
    outline: [2, 3],
    externalLinkIcon: true,
  },
})
