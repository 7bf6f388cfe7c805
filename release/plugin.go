// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover.io/release/internal/plugin"
	"drover.io/release/internal/program"
)

// pluginFolder is where the archives of the plugin and its manifest are in a release.
const pluginFolder = "plugin"

// defaultPluginURL is in the manifest for krew unless --plugin-url names the place of the archives. Nothing is there: such a
// manifest installs an archive that is named by --archive.
const defaultPluginURL = "https://releases.example.org/drover/{version}/plugin"

func pluginCommand() *cobra.Command {
	var build buildFlags
	var url string
	command := &cobra.Command{
		Use:   "plugin",
		Short: "Write the archives of kubectl drover and its manifest for krew",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkPluginURL(url); err != nil {
				return err
			}
			job, _, err := build.prepare(command)
			if err != nil {
				return err
			}
			return writePlugin(command.Context(), job, url)
		},
	}
	build.add(command)
	addPluginURL(command, &url)
	return command
}

func addPluginURL(command *cobra.Command, url *string) {
	command.Flags().StringVar(url, "plugin-url", defaultPluginURL, "where krew finds the archives of kubectl drover; {version} is replaced. With the default, krew needs --archive")
}

func checkPluginURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("--plugin-url must be a URL such as %s, not %q", defaultPluginURL, text)
	}
	return nil
}

// writePlugin writes an archive for each platform, and drover.yaml for krew.
func writePlugin(ctx context.Context, j imageJob, url string) error {
	binaries, err := os.MkdirTemp("", "drover-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries) //nolint:errcheck // a temporary folder that stays is no error of the archives
	license, err := os.ReadFile(filepath.Join(j.root, "LICENSE"))
	if err != nil {
		return err
	}
	archives := map[plugin.Platform][]byte{}
	for _, p := range plugin.Platforms() {
		path, err := program.Plugin().BuildFor(ctx, j.root, p.OS, p.Architecture, j.version, binaries)
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if archives[p], err = plugin.Pack(p, binary, license, j.source.Time); err != nil {
			return err
		}
		if err := j.write(filepath.Join(pluginFolder, p.Archive()), archives[p]); err != nil {
			return err
		}
		fmt.Fprintln(j.progress, "wrote", filepath.Join(j.folder, pluginFolder, p.Archive()))
	}
	manifest, err := plugin.Manifest(j.version, url, archives)
	if err != nil {
		return err
	}
	return j.write(filepath.Join(pluginFolder, "drover.yaml"), manifest)
}
