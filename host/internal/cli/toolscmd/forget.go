package toolscmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/internal/cli/globals"
	"toolhost.dev/host/internal/cli/screen"
)

// NewForget returns the command "tools forget".
func NewForget(s *globals.Settings) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "forget [WORDS]",
		Short: "Forget which tools were called after searches",
		Long: `Forget which tools were called after searches in this workspace, by all callers. With WORDS it
forgets only what searches for these words learned. A tool that is called within two minutes
after a search in its session ranks higher in later searches for the same words.
"tools search --explain" shows by how much.`,
		Example: `  toolhost tools forget invoice
  toolhost tools forget --all`,
		RunE: func(c *cobra.Command, args []string) error {
			words := strings.Join(args, " ")
			if all == (strings.TrimSpace(words) != "") {
				return errors.New("give the words to forget, or --all")
			}
			h, err := s.OpenOnce(c)
			if err != nil {
				return err
			}
			n, err := h.Forget(c.Context(), words, all)
			if err = errors.Join(err, h.Close()); err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, map[string]int64{"forgotten": n})
			}
			_, err = fmt.Fprintf(screen.New(s.Out), "Forgot %d pairs of a word and a tool.\n", n)
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "forget all words")
	return c
}
