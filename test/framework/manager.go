// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drover.io/test/process"
)

// stopTimeout is how long a manager may take to end by itself.
const stopTimeout = 10 * time.Second

// Manager is one of our managers as a process of its own.
type Manager struct {
	// Name of the binary, as in bin.
	Name string
	// Log is the file with its output.
	Log string

	exitAllowed atomic.Bool

	command process.Command

	mu      sync.Mutex // guards process: one goroutine kills a manager while another reads it
	process *process.Process
}

// managerCommands lists what a stack runs: binary, ServiceAccount and further arguments.
func (s *Stack) managerCommands() []struct {
	name, account string
	args          []string
} {
	return []struct {
		name, account string
		args          []string
	}{
		{"machine-controller", "drover-machine-controller", nil},
		{"bootstrap", "drover-bootstrap", nil},
		{"infra-sim", "drover-infra-sim", []string{"--state-dir=" + s.InstanceDir()}},
	}
}

func (s *Stack) startManagers(ctx context.Context) error {
	if s.options.Uninstalled {
		return nil
	}
	return s.StartManagers(ctx, s.options.Without...)
}

// StartManagers starts our managers, but for those that the stack has already and those named.
func (s *Stack) StartManagers(ctx context.Context, without ...string) error {
	for _, each := range s.managerCommands() {
		has := func(m *Manager) bool { return m.Name == each.name }
		if slices.Contains(without, each.name) || slices.ContainsFunc(s.Managers(), has) {
			continue
		}
		path := filepath.Join(s.root, "bin", each.name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("no %s: run make build: %w", each.name, err)
		}
		file, err := s.ServiceAccountKubeconfig(ctx, each.name, Namespace, each.account)
		if err != nil {
			return err
		}
		if _, err := s.Launch(each.name, process.Command{Path: path, Args: append([]string{
			"--kubeconfig=" + file,
			"--metrics-bind-address=0",
			"--health-probe-bind-address=0",
			fmt.Sprintf("--leader-elect=%t", s.options.LeaderElection),
			"--leader-election-namespace=" + Namespace,
		}, slices.Concat(each.args, s.options.Args[each.name])...)}); err != nil {
			return err
		}
	}
	return nil
}

// ServiceAccountKubeconfig writes a kubeconfig of the management cluster for a ServiceAccount and
// returns its path.
func (s *Stack) ServiceAccountKubeconfig(ctx context.Context, file, namespace, account string) (string, error) {
	kubeconfig, err := s.Management.ServiceAccountKubeconfig(ctx, namespace, account)
	if err != nil {
		return "", fmt.Errorf("making a kubeconfig for ServiceAccount %q: %w", account, err)
	}
	if server := s.APIServerURLs[file]; server != "" {
		if kubeconfig, err = WithServer(kubeconfig, server); err != nil {
			return "", err
		}
	}
	path := filepath.Join(s.Dir, file+".kubeconfig")
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// Launch runs a program as one of the managers of the stack, ours or not. It may be called by several goroutines.
func (s *Stack) Launch(name string, command process.Command) (*Manager, error) {
	command.Log = filepath.Join(s.Dir, name+".log")
	m := &Manager{Name: name, Log: command.Log, command: command}
	if err := m.Start(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managers = append(s.managers, m)
	return m, nil
}

// Managers are the managers of the stack, in the order of their start.
func (s *Stack) Managers() []*Manager {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.managers)
}

// Start starts the manager, again if it has ended.
func (m *Manager) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process.Running() {
		return nil
	}
	started, err := process.Start(m.command)
	if err != nil {
		return fmt.Errorf("starting %s: %w", m.Name, err)
	}
	m.process = started
	return nil
}

// Stop ends the manager in order.
func (m *Manager) Stop() {
	if p := m.current(); p.Running() {
		p.End(stopTimeout)
	}
}

// Kill ends the manager as a crash would.
func (m *Manager) Kill() {
	if p := m.current(); p.Running() {
		p.Kill()
	}
}

// current is the process as of now.
func (m *Manager) current() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// AllowExit sets whether the manager may end without failing the test, because the test kills and restarts it.
func (m *Manager) AllowExit(yes bool) { m.exitAllowed.Store(yes) }

// ExitAllowed reports what AllowExit has set.
func (m *Manager) ExitAllowed() bool { return m.exitAllowed.Load() }

// Tail is the end of the manager's log.
func (m *Manager) Tail() string { return m.Name + process.Tail(m.Log) }

// Err is the exit status of the manager, with the end of its log; nil while it runs.
func (m *Manager) Err() error {
	p := m.current()
	if p.Running() {
		return nil
	}
	return fmt.Errorf("%s ended: %s%s", m.Name, p.State(), process.Tail(m.Log))
}
