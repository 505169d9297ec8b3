package configcmd

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// NewTrust returns the command trust.
func NewTrust(s *globals.Settings) *cobra.Command {
	var accept string
	c := &cobra.Command{
		Use:   "trust",
		Short: "Review a project file and trust its content",
		Long: `Show what the project file would run and permit, and ask whether to trust it. A project file is a
configuration in the workspace, where tools and the authors of the repository can change it.
Until its content is trusted, only its restrictions apply: deny and ask rules, disabled tools, read-only
paths, lower limits. A change of the file, of its variables, of its lock file or of a program in the
workspace needs a new decision. Trust applies only to this content in this directory.
Without a terminal, no question is asked: pass the reviewed digest with --accept, or trust the content for
one run with the global flag --trust.`,
		Example: `  toolhost trust
  toolhost trust --accept sha256:5f1c…
  toolhost trust list
  toolhost trust revoke .`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if accept != "" {
				return acceptContent(s, accept)
			}
			return reviewContent(s)
		},
	}
	c.Flags().StringVar(&accept, "accept", "", "trust the content with this `digest`, without asking")
	c.AddCommand(newTrustList(s), newTrustShow(s), newTrustRevoke(s))
	return c
}

func acceptContent(s *globals.Settings, digest string) error {
	r, err := admin.TrustContent(s.Options(), digest)
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, r)
	}
	_, err = fmt.Fprintf(s.Out, "Trusted %s.\n", screen.Printable(r.Config))
	return err
}

// reviewContent shows the effects of a project file. At a terminal, it asks the user whether to trust the content. The
// exit status is 1 if the content is not trusted.
func reviewContent(s *globals.Settings) error {
	r, err := admin.ReviewContent(s.Options())
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, r)
	}
	if err := reviewText(screen.New(s.Out), r); err != nil {
		return err
	}
	if r.Status != "untrusted" {
		return nil
	}
	if !screen.IsTerminal(s.In) {
		fmt.Fprintf(s.Err, "toolhost: there is no terminal to ask on. To trust this content: toolhost trust --accept %s\n", r.Digest)
		return process.ExitError(process.ExitFailure)
	}
	if err := process.Confirm(s.In, s.Out, "Trust this content here?",
		"Not trusted. Nothing was changed."); err != nil {
		return err
	}
	return acceptContent(s, r.Digest)
}

func reviewText(w io.Writer, r *admin.ContentReview) error {
	head := screen.Printable(r.Config) + ", " + r.Digest
	switch r.Status {
	case "operator":
		_, err := fmt.Fprintf(w, "%s\nThis is not a project file: tools cannot change it. It applies without a review.\n", head)
		return err
	case "restricts":
		_, err := fmt.Fprintf(w, "%s\nThis file only restricts tools. It applies without a review.\n", head)
		return err
	case "trusted":
		_, err := fmt.Fprintf(w, "%s\nTrusted since %s.\n", head, r.Trusted.Local().Format(time.DateTime))
		return err
	}
	fmt.Fprintln(w, head)
	if !r.Trusted.IsZero() {
		fmt.Fprintf(w, "Other content was trusted here at %s. Changed since: %s. New effects are marked with +.\n",
			r.Trusted.Local().Format(time.DateTime), screen.Printable(strings.Join(r.Changed, ", ")))
	}
	if len(r.Items) == 0 {
		fmt.Fprintln(w, "It starts no program, and everything that it permits is also permitted without it.")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, i := range r.Items {
		mark := " "
		if i.New && !r.Trusted.IsZero() {
			mark = "+"
		}
		fmt.Fprintf(t, "%s %s\t%s\t%s\n", mark, i.Effect, screen.Printable(i.Subject), screen.Printable(i.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Programs) > 0 {
		fmt.Fprintln(w, "Programs in the workspace run from copies of this content. Files that they load by themselves are not covered.")
	}
	return nil
}

func newTrustList(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the trusted project files",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := admin.TrustedContent(s.Options())
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, append([]admin.ContentDecision{}, all...))
			}
			for _, d := range all {
				fmt.Fprintf(s.Out, "%s  %s  %s\n", d.At.Local().Format(time.DateTime), d.Digest(),
					screen.Printable(d.Config))
			}
			if len(all) == 0 {
				fmt.Fprintln(s.Out, "No project file is trusted.")
			}
			return nil
		},
	}
}

func newTrustShow(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "show PATH",
		Short: "Show what was trusted at a path",
		Long:  "Show what was trusted: the effects that were reviewed, and the files with their SHA-256. PATH is a project file or a directory.",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := located(s.Path(args[0]))
			if err != nil {
				return err
			}
			all, err := admin.TrustedContent(s.Options())
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(d admin.ContentDecision) bool {
				return d.Config != path && filepath.Dir(d.Config) != path
			})
			if len(all) == 0 {
				return fmt.Errorf("no project file in %s is trusted; for the trusted ones, run: toolhost trust list", path)
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, all)
			}
			for _, d := range all {
				fmt.Fprintf(s.Out, "%s, %s, trusted at %s\n", screen.Printable(d.Config), d.Digest(),
					d.At.Local().Format(time.DateTime))
				for _, line := range d.Review {
					fmt.Fprintln(s.Out, " ", screen.Printable(strings.ReplaceAll(line, "\t", "  ")))
				}
				for _, files := range []map[string]string{d.Files, d.Programs} {
					for _, f := range slices.Sorted(maps.Keys(files)) {
						fmt.Fprintf(s.Out, "  %-64s  %s\n", orAbsent(files[f]), screen.Printable(f))
					}
				}
			}
			return nil
		},
	}
}

func orAbsent(sum string) string {
	if sum == "" {
		return "(no file)"
	}
	return sum
}

func newTrustRevoke(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PATH",
		Short: "Revoke the trust in project files",
		Long:  "Remove the decision about a project file, or about all project files in a directory and below. Running hosts keep what they use until they reload.",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := located(s.Path(args[0]))
			if err != nil {
				return err
			}
			revoked, err := admin.RevokeContent(s.Options(), path)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, append([]string{}, revoked...))
			}
			if len(revoked) == 0 {
				return fmt.Errorf("no project file in %s is trusted; for the trusted ones, run: toolhost trust list", path)
			}
			for _, r := range revoked {
				fmt.Fprintf(s.Out, "Revoked %s.\n", screen.Printable(r))
			}
			return nil
		},
	}
}

// located returns a path in the form that the trust store uses. The file need not exist.
func located(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		if st, err := os.Stat(target); err == nil && st.IsDir() {
			return target, nil
		}
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}
