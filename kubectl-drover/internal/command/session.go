// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/kubeconfig"
)

// session is one run of the program: the API server that the flags name, and the streams.
type session struct {
	env     Environment
	factory cmdutil.Factory
	// raw is the output without escaping, and terminal whether it is one.
	raw      io.Writer
	terminal bool
}

// namespace is the one of the flags or of the kubeconfig's context.
func (s *session) namespace() (string, error) {
	namespace, _, err := s.factory.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// config is the configuration of the management cluster. The plugin asks little, so its rate is not limited.
func (s *session) config() (*rest.Config, error) {
	config, err := s.factory.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 300
	return config, nil
}

// reader reads the management cluster.
func (s *session) reader() (*object.Reader, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	mapper, err := s.factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return object.NewReader(config, mapper)
}

// workload opens the workload cluster of a Cluster by its kubeconfig Secret, where the user may read it. A tenant writes that
// Secret, so one that would run a program or read files of the user is refused.
func (s *session) workload(reader *object.Reader) func(context.Context, client.ObjectKey) (*object.Reader, error) {
	return func(ctx context.Context, cluster client.ObjectKey) (*object.Reader, error) {
		read, err := kubeconfig.Read(ctx, reader.Client, cluster)
		if problem, is := errors.AsType[*kubeconfig.Error](err); is && problem.Problem == kubeconfig.Unreadable {
			return nil, fmt.Errorf("you may not read the Secret %s: %w", kubeconfig.SecretKey(cluster), err)
		}
		if err != nil {
			return nil, err
		}
		config, err := kubeconfig.Rules{}.RESTConfig(read.Content)
		if err != nil {
			return nil, err
		}
		config.Timeout, config.QPS, config.Burst = requestTimeout, 50, 300
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return httplimit.Wrap(noRetryRoundTripper{next}, maxAnswer)
		})
		return object.NewReader(config, nil)
	}
}

// maxAnswer is how many bytes an answer of a workload cluster may have: many times those of a chunk of pods.
const maxAnswer = 64 << 20

// noRetryRoundTripper keeps client-go from repeating a request that was refused: the refusal of an eviction is the answer.
type noRetryRoundTripper struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o noRetryRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// subject is the object that the arguments of a command name, and what reads it.
func (s *session) subject(args []string, implied string) (*object.Reader, object.Kind, client.ObjectKey, error) {
	fail := func(err error) (*object.Reader, object.Kind, client.ObjectKey, error) {
		return nil, object.Kind{}, client.ObjectKey{}, err
	}
	reader, err := s.reader()
	if err != nil {
		return fail(err)
	}
	word, name, err := object.Argument(args, implied)
	if err != nil {
		return fail(err)
	}
	kind, err := object.KindOf(word, reader.Mapper)
	if err != nil {
		return fail(err)
	}
	namespace, err := s.namespace()
	return reader, kind, client.ObjectKey{Namespace: namespace, Name: name}, err
}

// machine reads the Machine of the arguments; another kind lacks what the command is about.
func (s *session) machine(ctx context.Context, args []string, about string) (*object.Reader, *clusterv1.Machine, error) {
	reader, kind, key, err := s.subject(args, "machine")
	if err != nil {
		return nil, nil, err
	}
	if !kind.Is(object.Machine) {
		return nil, nil, fmt.Errorf("%s has no %s: name a machine", kind.Title(), about)
	}
	m := &clusterv1.Machine{}
	return reader, m, reader.Get(ctx, object.Machine, key, m)
}

// withTimeout limits a context; zero is no limit.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// timeIsOver reports whether the time of a context is over. Its error may come a moment after its deadline, and a request is refused
// in between.
func timeIsOver(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// output is the flag -o.
type output struct{ format string }

func (o *output) addTo(cmd *cobra.Command, more ...string) {
	formats := append([]string{"json", "yaml"}, more...)
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: "+strings.Join(formats, ", ")+".")
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if o.format != "" && !slices.Contains(formats, o.format) {
			return fmt.Errorf("--output is %q; it is one of %s", o.format, strings.Join(formats, ", "))
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// structured prints a value as JSON or YAML if one of them is asked for, and reports whether it is.
func (s *session) structured(o output, value any) (bool, error) {
	var text []byte
	var err error
	switch o.format {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		return false, nil
	}
	if err == nil {
		_, err = fmt.Fprintln(s.env.Streams.Out, strings.TrimSuffix(string(text), "\n"))
	}
	return true, err
}
