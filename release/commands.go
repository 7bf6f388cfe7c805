// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/clusterctl"
	"drover.io/release/internal/program"
	"drover.io/release/internal/signature"
)

// localRegistry is the registry in the names of images that were pushed nowhere. Container tools use the same name for
// images that exist on a machine only.
const localRegistry = "localhost"

// buildFlags are the flags of what is made from the repository.
type buildFlags struct {
	version, registry, out string
}

func (f *buildFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.version, "version", "", "semantic version, such as v0.1.0; by default v0.0.0 with the commit")
	flags.StringVar(&f.registry, "registry", localRegistry, "registry and path that the names of the images begin with")
	flags.StringVar(&f.out, "out", "", "folder to write to; by default dist/VERSION")
}

// prepare checks the flags and returns what is made, and of which programs.
func (f *buildFlags) prepare(command *cobra.Command) (imageJob, []program.Program, error) {
	root, err := repository()
	if err != nil {
		return imageJob{}, nil, err
	}
	source, err := program.ReadGitState(command.Context(), root)
	if err != nil {
		return imageJob{}, nil, err
	}
	version := cmp.Or(f.version, "v0.0.0-g"+source.Revision[:12])
	if err := cmp.Or(checkVersion(version), checkRegistry(f.registry)); err != nil {
		return imageJob{}, nil, err
	}
	programs, err := program.List(root)
	if err != nil {
		return imageJob{}, nil, err
	}
	if source.Dirty {
		fmt.Fprintln(command.ErrOrStderr(), "release: files differ from the commit: what is made now cannot be made again from it")
	}
	folder := cmp.Or(f.out, filepath.Join(root, "dist", version))
	return imageJob{root: root, folder: folder, version: version, registry: f.registry, source: source, progress: command.OutOrStdout()}, programs, nil
}

func imagesCommand() *cobra.Command {
	var build buildFlags
	var only []string
	command := &cobra.Command{
		Use:   "images",
		Short: "Write an OCI archive and software bills of materials for each manager",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			job, programs, err := build.prepare(command)
			if err != nil {
				return err
			}
			if programs, err = program.Select(programs, only...); err != nil {
				return err
			}
			if _, err = job.run(command.Context(), programs); err != nil {
				return err
			}
			fmt.Fprintln(job.progress, "the images are in", job.folder)
			return nil
		},
	}
	build.add(command)
	command.Flags().StringSliceVar(&only, "only", nil, "names of the programs, such as machine-controller,infra-sim; by default all")
	return command
}

func allCommand() *cobra.Command {
	var build buildFlags
	var images bool
	var url string
	command := &cobra.Command{
		Use:   "all",
		Short: "Write everything that a release consists of",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkPluginURL(url); err != nil {
				return err
			}
			job, programs, err := build.prepare(command)
			if err != nil {
				return err
			}
			return releaseAll(command.Context(), job, programs, parts{binaries: images, pluginURL: url})
		},
	}
	build.add(command)
	command.Flags().BoolVar(&images, "images", true, "make the images and the plugin, too; without them the release is manifests and chart")
	addPluginURL(command, &url)
	return command
}

func clusterctlConfigCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "clusterctl-config FOLDER",
		Short: "Print a configuration of clusterctl that names the providers of a release in a folder",
		Args:  oneFolder,
		RunE: func(command *cobra.Command, arguments []string) error {
			folder, err := filepath.Abs(arguments[0])
			if err != nil {
				return err
			}
			if err := checkRelease(folder); err != nil {
				return err
			}
			config, err := clusterctl.FindConfig(filepath.Join(folder, clusterctlFolder))
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(config)
			return err
		},
	}
	return command
}

func pushCommand() *cobra.Command {
	var registry string
	command := &cobra.Command{
		Use:   "push FOLDER",
		Short: "Push the images of a release, with what refers to them, to a registry",
		Args:  oneFolder,
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := checkRegistry(registry); err != nil {
				return err
			}
			if err := checkRelease(arguments[0]); err != nil {
				return err
			}
			if err := checksum.Verify(arguments[0]); err != nil {
				return fmt.Errorf("%s is not pushed, as it is no complete release: %w", arguments[0], err)
			}
			archives, err := fs.Glob(os.DirFS(arguments[0]), "images/*.tar")
			if err != nil || len(archives) == 0 {
				return errors.Join(fmt.Errorf("%s has no images: remove it, and make a release with images by make release VERSION=%s", arguments[0], filepath.Base(arguments[0])), err)
			}
			for _, archive := range archives {
				pushed, err := push(command.Context(), filepath.Join(arguments[0], archive), registry)
				if err != nil {
					return err
				}
				fmt.Fprintln(command.OutOrStdout(), pushed)
			}
			return nil
		},
	}
	command.Flags().StringVar(&registry, "registry", "", "registry and path to push to, such as registry.example.org/drover")
	return command
}

func signCommand() *cobra.Command {
	var key string
	command := &cobra.Command{
		Use:   "sign FOLDER",
		Short: "Sign the checksums of a release with a private key",
		Args:  oneFolder,
		RunE: func(_ *cobra.Command, arguments []string) error {
			if key == "" {
				return errors.New("--key must name the file of a private key")
			}
			if err := checkRelease(arguments[0]); err != nil {
				return err
			}
			sums, err := os.ReadFile(filepath.Join(arguments[0], checksum.File))
			if err != nil {
				return fmt.Errorf("reading the checksums: %w", err)
			}
			if err := checksum.Verify(arguments[0]); err != nil {
				return fmt.Errorf("%s is not signed, as it is not complete: %w", arguments[0], err)
			}
			made, err := signature.Sign(key, sums)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(arguments[0], checksum.Signature), []byte(made+"\n"), 0o644)
		},
	}
	command.Flags().StringVar(&key, "key", "", "private key in PEM: ECDSA or Ed25519, PKCS #8 without passphrase")
	return command
}

// oneFolder accepts one argument, the folder of a release.
func oneFolder(command *cobra.Command, arguments []string) error {
	if len(arguments) == 1 {
		return nil
	}
	return fmt.Errorf("%s needs one argument, the folder of a release such as dist/v0.1.0, not %q", command.CommandPath(), arguments)
}

// checkRelease checks that a folder has a release.
func checkRelease(folder string) error {
	_, err := os.Stat(filepath.Join(folder, checksum.File))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no release, as %s is missing: make one with make release VERSION=%s", folder, checksum.File, filepath.Base(folder))
	}
	return err
}

// repository finds the root of the repository: the folder with go.work.
func repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in the repository: no folder above has go.work", folder)
		}
	}
}
