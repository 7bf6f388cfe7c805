// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows the progress of a long compilation: on a
// terminal one line that is redrawn, elsewhere one line at the start and one at the
// end of each program.
type progress struct {
	w     *os.File
	live  bool
	label string
	start time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex
	detail string
}

// newProgress reports on w.
func newProgress(w *os.File) *progress {
	return &progress{w: w, live: term.IsTerminal(int(w.Fd())) && os.Getenv("TERM") != "dumb"}
}

// begin announces the work called label.
func (p *progress) begin(label string) {
	p.label, p.start, p.detail = label, time.Now(), ""
	if !p.live {
		p.printf("%s\n", label)
		return
	}
	p.stop = make(chan struct{})
	p.done.Go(p.redraw)
}

// note sets the part of the work that is in progress.
func (p *progress) note(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detail = detail
}

// end closes the work, leaving the line result behind if all went well.
func (p *progress) end(ok bool, result string) {
	if p.live {
		close(p.stop)
		p.done.Wait()
		p.printf("\r\x1b[K")
	}
	if ok {
		p.printf("%s in %s\n", result, p.elapsed())
	}
}

// printf writes to the user. Errors of the output are ignored.
func (p *progress) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...)
}

// redraw keeps the line of a terminal current until the work ends.
func (p *progress) redraw() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		p.mu.Lock()
		detail := p.detail
		p.mu.Unlock()
		width, _, err := term.GetSize(int(p.w.Fd()))
		if err != nil || width == 0 {
			width = 80
		}
		p.printf("\r\x1b[K%s", fit(fmt.Sprintf("%s  %s  %s", p.label, p.elapsed(), detail), width-1))
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
	}
}

func (p *progress) elapsed() time.Duration {
	return time.Since(p.start).Round(time.Second)
}

// fit shortens line to at most width characters, so that it stays one line.
func fit(line string, width int) string {
	runes := []rune(line)
	return string(runes[:max(0, min(len(runes), width))])
}
