package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newToken(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens for clients",
		Long: `Create, list and revoke the tokens with which clients of "toolhost serve" authenticate.
A token authenticates a principal. The principal block of this name in the configuration defines what
the token may do; without such a block, the flags of "token create" decide. The state directory contains
only a hash of each token. Changes take effect at the next request.`,
		Example: `  toolhost token create ci --role caller --expires 2160h
  toolhost token create me --role approver
  toolhost token list
  toolhost token revoke ci`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(newTokenCreate(s), newTokenList(s), newTokenRevoke(s))
	return c
}

type tokenFlags struct {
	role       string
	workspaces []string
	tools      []string
	fields     []string
	expires    time.Duration
}

func newTokenCreate(s *globals.Settings) *cobra.Command {
	var f tokenFlags
	c := &cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Create a token for a principal",
		Long: `Make a token for a principal and print it on standard output. It cannot be shown again.

If the configuration has a principal block of this name, the block decides what the token may do.
Otherwise the flags do: a caller runs tools, an approver answers permission requests of others, a viewer
reads status and statistics, an administrator also gives answers that last.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.expires < 0 {
				return fmt.Errorf("--expires %s: use a duration such as 720h, or leave it out for a token that does not expire", f.expires)
			}
			grant, err := f.grant(s)
			if err != nil {
				return err
			}
			secret, token, err := admin.CreateToken(s.Options(), args[0], f.expires, grant)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, struct {
					Secret string `json:"token"`
					admin.Token
				}{secret, token})
			}
			fmt.Fprintf(s.Err, "toolhost: token %s of principal %s, %s. Keep it: it is not shown again.\n", token.ID, token.Principal, until(&token))
			_, err = fmt.Fprintln(s.Out, secret)
			return err
		},
	}
	c.Flags().StringVar(&f.role, "role", "", "role of the token, if no principal block defines its rights: `"+strings.Join(admin.Roles(), "|")+"`")
	c.Flags().StringArrayVar(&f.workspaces, "in", nil, "`directory` in which calls may run; DIR/*: each directory directly inside DIR (default: the workspace of the host)")
	c.Flags().StringSliceVar(&f.tools, "tool", nil, "`glob` for the full names of the tools that it may call, such as read or jira:* (default: all)")
	c.Flags().StringSliceVar(&f.fields, "field", nil, "`namespace` of field tools that it may call")
	c.Flags().DurationVar(&f.expires, "expires", 0, "`duration` after which the token is not valid any more, such as 720h (default: never)")
	return c
}

// grant returns the rights that the flags specify. It returns nil if no flag specifies rights.
func (f *tokenFlags) grant(s *globals.Settings) (*admin.TokenGrant, error) {
	if f.role == "" {
		if len(f.workspaces)+len(f.tools)+len(f.fields) > 0 {
			return nil, fmt.Errorf("--in, --tool and --field need --role: use --role caller")
		}
		return nil, nil
	}
	rights := admin.RoleRights(f.role)
	if rights == nil {
		return nil, fmt.Errorf("--role %q: use one of %s", f.role, strings.Join(admin.Roles(), ", "))
	}
	workspaces := make([]string, 0, len(f.workspaces))
	for _, dir := range f.workspaces {
		abs, err := filepath.Abs(s.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("--in: %w", err)
		}
		workspaces = append(workspaces, abs)
	}
	return &admin.TokenGrant{Rights: rights, Workspaces: workspaces, Tools: f.tools, Fields: f.fields}, nil
}

// until describes how long a token is valid.
func until(t *admin.Token) string {
	switch {
	case t.Expires.IsZero():
		return "valid until it is revoked"
	case t.Expired:
		return "expired"
	}
	return "valid until " + t.Expires.Local().Format(time.DateTime)
}

func newTokenList(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tokens, err := admin.Tokens(s.Options())
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, append([]admin.Token{}, tokens...))
			}
			if len(tokens) == 0 {
				_, err := fmt.Fprintln(s.Out, "There are no tokens. Make one: toolhost token create NAME --role caller")
				return err
			}
			t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ID\tPRINCIPAL\tRIGHTS\tCREATED\tVALIDITY")
			for _, k := range tokens {
				rights := "(principal block)"
				if k.Grant != nil {
					rights = strings.Join(k.Grant.Rights, ", ")
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", k.ID, screen.Printable(k.Principal), rights,
					k.Created.Local().Format(time.DateTime), until(&k))
			}
			return t.Flush()
		},
	}
}

func newTokenRevoke(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID|PRINCIPAL",
		Short: "Revoke tokens",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			revoked, err := admin.RevokeToken(s.Options(), args[0])
			if err != nil {
				return err
			}
			if len(revoked) == 0 {
				return fmt.Errorf("no token and no principal has the name %q: for a list, run: toolhost token list", args[0])
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, revoked)
			}
			for _, k := range revoked {
				fmt.Fprintf(s.Out, "Revoked token %s of principal %s.\n", k.ID, screen.Printable(k.Principal))
			}
			return nil
		},
	}
}
