package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

func newVersion(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, what it was built of, and the protocols that it speaks",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := admin.Build()
			if s.JSON {
				return cli.PrintJSON(os.Stdout, b)
			}
			commit := "not known"
			if b.Commit != "" {
				commit = b.Commit
				if b.Modified {
					commit += " with changes"
				}
				commit += " " + b.Time
			}
			protocols := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(b.PluginProtocols)), ", "), "[]")
			_, err := fmt.Printf("toolhost %s\ncommit %s\nbuilt with %s for %s\nplugin protocols %s\n", b.Version, commit, b.Go, b.Platform, protocols)
			return err
		},
	}
}
