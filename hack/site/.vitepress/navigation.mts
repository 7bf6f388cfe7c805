// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// The navigation is the table of contents in docs/README.md: its headings of the second level are the groups, those of the
// third level are folded groups inside them, and the links of its lists are the pages.
import { readFileSync } from 'node:fs'
import type { DefaultTheme } from 'vitepress'

type Group = DefaultTheme.SidebarItem & { items: DefaultTheme.SidebarItem[] }

const page = /^ *- \[(?<text>[^\]]+)\]\((?<file>[^):#]+)\.md\)/

export function sidebar(contents: string): Group[] {
  const groups: Group[] = []
  let current: Group | undefined
  for (const line of readFileSync(contents, 'utf8').split('\n')) {
    const link = page.exec(line)
    if (line.startsWith('## ')) {
      current = { text: line.slice(3), items: [] }
      groups.push(current)
    } else if (line.startsWith('### ')) {
      current = { text: line.slice(4), items: [], collapsed: true }
      groups[groups.length - 1].items.push(current)
    } else if (link?.groups) {
      current?.items.push({ text: link.groups.text.replaceAll('`', ''), link: '/' + link.groups.file.replace(/README$/, '') })
    }
  }
  return groups
}

// navigation leads from the top of each page to the first page of each group.
export function navigation(groups: Group[]): DefaultTheme.NavItem[] {
  return groups.map(({ text, items }) => {
    let first = items[0]
    while (first.items) first = first.items[0]
    return { text: text ?? '', link: first.link ?? '/', activeMatch: '^' + first.link?.replace(/[^/]*$/, '') }
  })
}
