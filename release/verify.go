// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/signature"
)

func verifyCommand() *cobra.Command {
	var key, version string
	var checksumsOnly bool
	command := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Verify the signature and every checksum of a release, without network",
		Args:  oneFolder,
		PreRunE: func(command *cobra.Command, _ []string) error {
			if key == "" && (!checksumsOnly || command.Flags().Changed("key")) {
				return errors.New("--key must name the public key of the release; --checksums-only verifies nothing but that the files are complete")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			folder, did := arguments[0], "verified signature and checksums of"
			if err := checkRelease(folder); err != nil {
				return err
			}
			if checksumsOnly {
				did = "verified checksums only, not who made"
			} else if err := verifySignature(folder, key); err != nil {
				return err
			}
			if err := checksum.Verify(folder); err != nil {
				return err
			}
			if err := verifyVersion(folder, version); err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), did, folder)
			return nil
		},
	}
	command.Flags().StringVar(&key, "key", "", "public key in PEM")
	command.Flags().StringVar(&version, "version", "", "version that the release must have; by default the name of the folder")
	command.Flags().BoolVar(&checksumsOnly, "checksums-only", false, "do not verify the signature")
	command.MarkFlagsMutuallyExclusive("key", "checksums-only")
	return command
}

// verifyVersion checks that the folder has the release of a version, by default of that which is its name.
func verifyVersion(folder, version string) error {
	if version == "" {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		version = filepath.Base(absolute)
	}
	content, err := os.ReadFile(filepath.Join(folder, versionFile))
	if err != nil {
		return fmt.Errorf("reading the version of the release: %w", err)
	}
	if got := strings.TrimSpace(string(content)); got != version {
		return fmt.Errorf("%s has release %q, not %q: --version names the one that is wanted, by default the name of the folder", folder, got, version)
	}
	return nil
}

// verifySignature checks who made the list of checksums.
func verifySignature(folder, key string) error {
	sums, err := os.ReadFile(filepath.Join(folder, checksum.File))
	if err != nil {
		return fmt.Errorf("reading the checksums: %w", err)
	}
	made, err := os.ReadFile(filepath.Join(folder, checksum.Signature))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not signed, as %s is missing: make sign VERSION=%s signs it", folder, checksum.Signature, filepath.Base(folder))
	}
	if err != nil {
		return fmt.Errorf("reading the signature: %w", err)
	}
	if err := signature.Verify(key, sums, string(made)); err != nil {
		return fmt.Errorf("verifying %s: %w", checksum.File, err)
	}
	return nil
}
