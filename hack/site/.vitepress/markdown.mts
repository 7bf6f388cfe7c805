// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// What Markdown means in the repository and would not on the site: text between < and > and between {{ and }} is text,
// comments are invisible, links to README.md lead to the index of a folder, links out of docs/ lead to the repository, a block
// of mermaid is a diagram, and a block of commands that no test runs says what it needs.
import path from 'node:path'
import type { MarkdownRenderer } from 'vitepress'

// needs are the marks of test/guides that a reader has to know.
const needs: Record<string, string> = { cloud: 'Needs a real cloud', installation: 'Needs a registry or an installation' }

type Token = ReturnType<MarkdownRenderer['parse']>[number]

export function repositoryMarkdown(md: MarkdownRenderer, root: string, docs: string, repository?: string) {
  md.core.ruler.push('repository_links', ({ tokens, env }) => {
    const open: Token[] = []
    for (const token of tokens.flatMap((block) => block.children ?? [])) {
      if (token.type === 'link_open') {
        open.push(token)
        retarget(token, path.dirname(env.path))
      } else if (token.type === 'link_close') {
        token.tag = open.pop()?.tag ?? token.tag
      }
    }
  })

  function retarget(token: Token, folder: string) {
    const href = token.attrGet('href') ?? ''
    if (/^(\w+:|#|\/)/.test(href)) return
    const [target, anchor] = href.split('#')
    const file = path.resolve(folder, target)
    const name = path.relative(root, file)
    if (file.startsWith(docs + path.sep)) {
      token.attrSet('href', href.replace(/\bREADME\.md\b/, 'index.md'))
    } else if (repository) {
      token.attrSet('href', `${repository.replace(/\/$/, '')}/${name}${anchor ? '#' + anchor : ''}`)
    } else {
      token.tag = 'span'
      token.attrs = [['title', `${name} in the repository`]]
    }
  }

  const { escapeHtml } = md.utils
  const text = (content: string) => escapeHtml(content).replaceAll('{{', '&#123;&#123;')
  const html = (content: string) => (content.trimStart().startsWith('<!--') ? '' : text(content))
  md.renderer.rules.text = (tokens, i) => text(tokens[i].content)
  md.renderer.rules.code_inline = (tokens, i) => `<code v-pre>${escapeHtml(tokens[i].content)}</code>`
  md.renderer.rules.html_block = (tokens, i) => html(tokens[i].content)
  md.renderer.rules.html_inline = (tokens, i) => html(tokens[i].content)

  const fence = md.renderer.rules.fence!
  md.renderer.rules.fence = (tokens, i, ...rest) => {
    const { info, content } = tokens[i]
    const [language, mark] = info.trim().split(/\s+/)
    if (language === 'mermaid') return `<Diagram source="${encodeURIComponent(content)}" />\n`
    return (needs[mark] ? `<p class="needs">${needs[mark]}</p>\n` : '') + fence(tokens, i, ...rest)
  }
}
