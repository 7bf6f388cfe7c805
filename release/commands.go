// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/program"
	"drover.io/release/internal/signature"
)

// localRegistry is the registry in the names of images that were pushed nowhere. Container tools use the same name for
// images that exist on a machine only.
const localRegistry = "localhost"

// semantic is a version as a Go module, an image tag and clusterctl all accept it.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("--version must be a semantic version such as v0.1.0 or v0.2.0-rc.1, not %q", version)
	}
	return nil
}

func imagesCommand() *cobra.Command {
	var version, registry, out string
	var only []string
	command := &cobra.Command{
		Use:   "images",
		Short: "Write an OCI archive and software bills of materials for each manager",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			root, err := repository()
			if err != nil {
				return err
			}
			source, err := program.ReadSource(command.Context(), root)
			if err != nil {
				return err
			}
			version = cmp.Or(version, "v0.0.0-"+source.Revision[:12])
			if err := checkVersion(version); err != nil {
				return err
			}
			programs, err := program.List(root)
			if err != nil {
				return err
			}
			if programs, err = program.Select(programs, only...); err != nil {
				return err
			}
			out = cmp.Or(out, filepath.Join(root, "dist", version))
			job := imageJob{root: root, folder: out, version: version, registry: registry, source: source, progress: command.OutOrStdout()}
			return job.run(command.Context(), programs)
		},
	}
	flags := command.Flags()
	flags.StringVar(&version, "version", "", "version of the images; by default v0.0.0 with the commit")
	flags.StringVar(&registry, "registry", localRegistry, "registry and path that the names of the images begin with")
	flags.StringVar(&out, "out", "", "folder to write to; by default dist/VERSION")
	flags.StringSliceVar(&only, "only", nil, "names of the programs, such as machine-controller,infra-sim; by default all")
	return command
}

func pushCommand() *cobra.Command {
	var registry string
	command := &cobra.Command{
		Use:   "push FOLDER",
		Short: "Push the images of a release, with what refers to them, to a registry",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			archives, err := filepath.Glob(filepath.Join(arguments[0], "images", "*.tar"))
			if err != nil || len(archives) == 0 {
				return errors.Join(fmt.Errorf("%s has no images: make images first", arguments[0]), err)
			}
			for _, archive := range archives {
				pushed, err := push(command.Context(), archive, registry)
				if err != nil {
					return err
				}
				fmt.Fprintln(command.OutOrStdout(), pushed)
			}
			return nil
		},
	}
	command.Flags().StringVar(&registry, "registry", "", "registry and path to push to, such as registry.example.org/drover")
	_ = command.MarkFlagRequired("registry") // the flag exists
	return command
}

func signCommand() *cobra.Command {
	var key string
	command := &cobra.Command{
		Use:   "sign FOLDER",
		Short: "Sign the checksums of a release with a private key",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
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
	_ = command.MarkFlagRequired("key") // the flag exists
	return command
}

func verifyCommand() *cobra.Command {
	var key string
	command := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Verify the signature and every checksum of a release, without network",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := verify(arguments[0], key); err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), "verified", arguments[0])
			return nil
		},
	}
	command.Flags().StringVar(&key, "key", "", "public key in PEM; without it the checksums alone are verified")
	return command
}

func verify(folder, key string) error {
	if key != "" {
		sums, err := os.ReadFile(filepath.Join(folder, checksum.File))
		if err != nil {
			return fmt.Errorf("reading the checksums: %w", err)
		}
		made, err := os.ReadFile(filepath.Join(folder, checksum.Signature))
		if err != nil {
			return fmt.Errorf("reading the signature: %w", err)
		}
		if err := signature.Verify(key, sums, string(made)); err != nil {
			return fmt.Errorf("verifying %s: %w", checksum.File, err)
		}
	}
	return checksum.Verify(folder)
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
