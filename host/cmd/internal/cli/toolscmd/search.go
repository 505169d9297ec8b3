// Package toolscmd implements the commands "tools search" and "tools size".
package toolscmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// NewSearch returns the command "tools search".
func NewSearch(s *globals.Settings) *cobra.Command {
	var q host.SearchQuery
	c := &cobra.Command{
		Use:   "search [WORDS]",
		Short: "Search for tools by what they do",
		Long: `Search for tools by words of their names, descriptions, parameters and keywords. The answer
has the command that calls each tool. Without words it lists the namespaces of field tools.
In a command string, help --search WORDS gives the same answer. Tools that the policy always denies
are left out. If a call needs a permission, the answer has the reason and the rule.`,
		Example: `  toolhost tools search write a file
  toolhost tools search edit --explain`,
		RunE: func(c *cobra.Command, args []string) error {
			q.Words = strings.Join(args, " ")
			h, err := s.OpenOnce(c)
			if err != nil {
				return err
			}
			found, err := h.Search(c.Context(), q)
			if closed := h.Close(); err == nil {
				err = closed
			}
			switch {
			case err != nil:
				return err
			case s.JSON:
				err = screen.PrintJSON(s.Out, found)
			default:
				_, err = fmt.Fprintln(screen.New(s.Out), found.Text)
			}
			if err == nil && len(found.Tools) == 0 && q.Words != "" {
				return process.ExitError(process.ExitFailure)
			}
			return err
		},
	}
	c.Flags().StringVar(&q.Namespace, "namespace", "", "search only the field tools of this `namespace`")
	c.Flags().IntVar(&q.Limit, "limit", 5, "maximum `number` of tools, at most 50")
	c.Flags().BoolVar(&q.Explain, "explain", false, "show the score, and the words that each part of a definition has")
	c.Flags().BoolVar(&q.Schema, "schema", false, "show the schemas of the arguments")
	return c
}

// NewForget returns the command "tools forget" of earlier versions, whose searches learned from calls. Scripts can
// still run it.
func NewForget(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{Use: "forget [WORDS]", Short: "Do nothing, because searches learn nothing", Hidden: true, RunE: func(*cobra.Command, []string) error {
		if s.JSON {
			return screen.PrintJSON(s.Out, map[string]int{"forgotten": 0})
		}
		_, err := fmt.Fprintln(s.Out, "Searches learn nothing, so there is nothing to forget.")
		return err
	}}
	c.Flags().Bool("all", false, "forget all words")
	return c
}
