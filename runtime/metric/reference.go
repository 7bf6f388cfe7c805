// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"io"
	"strings"
)

// WriteReference writes a table in Markdown of all metrics that the program declares.
func WriteReference(to io.Writer) error {
	if _, err := io.WriteString(to, "| Metric | Type | Stability | Labels | Meaning |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, d := range declarations() {
		if _, err := fmt.Fprintf(to, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.kind, d.Stability, describe(d.Labels), d.Help); err != nil {
			return err
		}
	}
	return nil
}

// describe names the labels with their values.
func describe(labels []Label) string {
	all := make([]string, 0, len(labels))
	for _, label := range labels {
		of := label.Of
		if label.Values != nil {
			of = strings.ReplaceAll("`"+strings.Join(label.Values, "`, `")+"`", "``", "empty")
		}
		all = append(all, fmt.Sprintf("`%s`: %s", label.Name, of))
	}
	return strings.Join(all, "; ")
}
