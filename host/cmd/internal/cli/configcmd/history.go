package configcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newConfigHistory(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "history [ID]",
		Short: "Show the configurations that hosts used",
		Long: `Show the configurations that running hosts used, newest first, with the principal that applied each.
With an id, show what a rollback to it would change in the files. toolhost config rollback goes back.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := admin.OpenHistory(s.Options())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return errors.Join(showServed(s, r, args[0]), r.Close())
			}
			return errors.Join(listServed(s, r), r.Close())
		},
	}
	return c
}

func listServed(s *globals.Settings, r *admin.Records) error {
	h, err := r.ConfigHistory(s.Options())
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, h)
	}
	out := screen.New(s.Out)
	if len(h.Served) == 0 {
		_, err := fmt.Fprintf(out, "No running host used %s yet. toolhost serve and toolhost mcp keep the history.\n", screen.Printable(h.Config))
		return err
	}
	fmt.Fprintf(out, "%s\n%6s  %-19s  %-12s  %s\n", screen.Printable(h.Config), "ID", "TIME", "DIGEST", "BY")
	marked := false
	for _, e := range h.Served {
		mark := ""
		if !marked && e.Digest == h.Digest {
			mark, marked = "  (on disk)", true
		}
		if _, err = fmt.Fprintf(out, "%6d  %s  %.12s  %s%s\n", e.ID, e.At.Local().Format(time.DateTime),
			e.Digest[len("sha256:"):], screen.Printable(e.By), mark); err != nil {
			return err
		}
	}
	if !marked {
		_, err = fmt.Fprintln(out, "No host has used the configuration that is on disk now. To go back: toolhost config rollback")
	}
	return err
}

func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%q is not an id of the history; toolhost config history lists the ids", text)
	}
	return id, nil
}

func showServed(s *globals.Settings, r *admin.Records, text string) error {
	id, err := parseID(text)
	if err != nil {
		return err
	}
	e, err := r.ServedConfig(s.Options(), id)
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, e)
	}
	same := true
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		now, err := os.ReadFile(name)
		if err != nil {
			now = nil
		}
		if !bytes.Equal(now, e.Files[name]) {
			same = false
			if err := showSource(s.Out,
				diff.Diff(name, now, fmt.Sprintf("%s (%d)", name, id), e.Files[name])); err != nil {
				return err
			}
		}
	}
	if same {
		fmt.Fprintln(s.Out, "The files have not changed since then.")
	}
	return nil
}

func newConfigRollback(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback [ID]",
		Short: "Restore the last configuration that a host used",
		Long: `Restore the last configuration that a host used and that differs from the current files, or the one with an
id of toolhost config history, and apply it in the running hosts. It needs no approval of its privileges,
because a host used it before. Files that were added to a configuration directory get the suffix
.rolled-back, so that they no longer apply. Exit status 1 if a host refuses a part of it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var id int64
			var err error
			if len(args) == 1 {
				if id, err = parseID(args[0]); err != nil {
					return err
				}
			}
			return rollBack(c, s, id)
		},
	}
}

func rollBack(c *cobra.Command, s *globals.Settings, id int64) error {
	hosts, err := admin.Running(s.Options())
	if err != nil {
		return err
	}
	var all []*host.RolledBack
	if len(hosts) == 0 {
		out, err := admin.Rollback(s.Options(), id)
		if err != nil {
			return err
		}
		all = append(all, out)
	}
	var failed error
	for _, h := range hosts {
		out, err := h.Rollback(c.Context(), id)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("host %d: %w", h.PID, err))
			continue
		}
		id = out.To.ID // the other hosts must return to the same configuration
		all = append(all, out)
	}
	refused := false
	for _, out := range all {
		refused = refused || out.Reload != nil && out.Reload.Refused()
	}
	if s.JSON {
		failed = errors.Join(failed, screen.PrintJSON(s.Out, all))
	} else {
		rolledBackText(s.Out, all)
	}
	if failed == nil && refused {
		return process.ExitError(process.ExitFailure)
	}
	return failed
}

func rolledBackText(w io.Writer, all []*host.RolledBack) {
	for i, out := range all {
		if i == 0 {
			fmt.Fprintf(w, "Went back to version %d, which was made at %s.\n", out.To.ID, out.To.At.Local().Format(time.DateTime))
			for _, name := range out.Changed {
				fmt.Fprintln(w, "  restored", screen.Printable(name))
			}
		}
		switch {
		case out.Reload == nil:
			fmt.Fprintln(w, "No host runs with this state directory. The next host reads the files.")
		case out.Reload.Config.Refused != "":
			fmt.Fprintln(w, "refused:", screen.Clean(out.Reload.Config.Refused))
		}
		if out.Reload != nil {
			for _, p := range out.Reload.Plugins {
				if p.Refused != "" {
					fmt.Fprintf(w, "plugin %s refused: %s\n", screen.Printable(p.Name), screen.Clean(p.Refused))
				}
			}
		}
	}
}
