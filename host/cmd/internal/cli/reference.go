package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/api"
	"toolhost.dev/host/cmd/internal/cli/globals"
)

// newReference returns the hidden command that generates docs/reference.
func newReference(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:    "reference DIRECTORY",
		Short:  "Write the reference pages as Markdown",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cli, err := cliReference(c.Root())
			if err != nil {
				return err
			}
			return writeAll(s.Path(args[0]), map[string][]byte{
				"cli.md": cli, "configuration.md": []byte(admin.Reference()), "http.md": []byte(api.Reference()),
			})
		},
	}
}

func cliReference(root *cobra.Command) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Reference of the command line\n\nMade by `make generate`.\n")
	err := eachCommand(root, func(c *cobra.Command) error {
		var page bytes.Buffer
		link := func(name string) string {
			return "#" + strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "_", "-")
		}
		if err := doc.GenMarkdownCustom(c, &page, link); err != nil {
			return err
		}
		text, _, _ := strings.Cut(page.String(), "### Options inherited from parent commands")
		text, _, _ = strings.Cut(text, "### SEE ALSO")
		fmt.Fprintf(&out, "\n%s\n", strings.TrimSpace(text))
		return nil
	})
	return out.Bytes(), err
}

// eachCommand calls f for c and all its subcommands that have help, parents first.
func eachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
		return nil
	}
	c.InitDefaultHelpCmd()
	c.InitDefaultHelpFlag()
	c.DisableAutoGenTag = true
	if err := f(c); err != nil {
		return err
	}
	for _, inner := range c.Commands() {
		if err := eachCommand(inner, f); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documentation is for everybody
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

func newMan(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write manual pages",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			date := time.Unix(0, 0).UTC() // a fixed date makes the pages reproducible
			files := make(map[string][]byte)
			err := eachCommand(c.Root(), func(c *cobra.Command) error {
				var page bytes.Buffer
				header := &doc.GenManHeader{
					Section: "1", Date: &date, Source: "toolhost " + host.Version, Manual: "toolhost",
				}
				err := doc.GenMan(c, header, &page)
				files[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = page.Bytes()
				return err
			})
			if err != nil {
				return err
			}
			return writeAll(s.Path(args[0]), files)
		},
	}
}
