package configcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// exitChanges is the exit status if the plan contains changes.
const exitChanges = 2

// planned is the plan of one host. A zero PID means that this process created the plan.
type planned struct {
	PID int `json:"pid,omitempty"`
	*host.Plan
	Error string `json:"error,omitempty"`
}

func newConfigPlan(s *cli.Settings) *cobra.Command {
	var against string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what a reload would change",
		Long: `Show what a reload would change in the running hosts of this user that share the state directory:
plugins and their tools, settings, and, marked PRIVILEGE INCREASE, what tools could then do that they
cannot do now. If no host runs, the configuration is compared with the one that a host used last, or else
with the pins. Without either, the plan is what a new host would load. Nothing is changed. Versions of
plugins that are not known yet are started to read their tools, and stopped again.
Exit status 0: no changes. 2: changes. 1: something would be refused, or there is no plan.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := plans(c.Context(), s, against)
			if err != nil { // avoid status 2, which means that the plan contains changes
				fmt.Fprintln(os.Stderr, "toolhost:", cli.Clean(err.Error()))
				return cli.ExitError(cli.ExitFailure)
			}
			if s.JSON {
				err = cli.PrintJSON(os.Stdout, all)
			} else {
				for _, p := range all {
					err = errors.Join(err, planText(cli.Screen(os.Stdout), p))
				}
			}
			return errors.Join(err, planStatus(all))
		},
	}
	c.Flags().StringVar(&against, "against", "", "configuration `file` or directory to compare with, in place of what hosts use")
	return c
}

func planStatus(all []planned) error {
	var status error
	for _, p := range all {
		switch {
		case p.Error != "" || p.Fails():
			return cli.ExitError(cli.ExitFailure)
		case p.Changes():
			status = cli.ExitError(exitChanges)
		}
	}
	return status
}

// plans requests a plan from each running host. If no host runs, or if against is set, this process creates the plan.
func plans(ctx context.Context, s *cli.Settings, against string) ([]planned, error) {
	var hosts []admin.Remote
	if against == "" {
		var err error
		if hosts, err = admin.Running(s.Options()); err != nil {
			return nil, err
		}
	}
	if len(hosts) == 0 {
		p, err := admin.Plan(ctx, s.Inspection(), against)
		if err != nil {
			return nil, err
		}
		return []planned{{Plan: p}}, nil
	}
	all := make([]planned, len(hosts))
	for i, h := range hosts {
		p, err := h.Plan(ctx)
		all[i] = planned{PID: h.PID, Plan: p}
		if err != nil {
			all[i].Error = err.Error()
		}
	}
	return all, nil
}

var planSigns = map[string]string{"add": "+", "change": "~", "remove": "-", "refuse": "!"}

func planText(w io.Writer, p planned) error {
	var errs []error
	say := func(format string, a ...any) {
		_, err := fmt.Fprintf(w, format+"\n", a...)
		errs = append(errs, err)
	}
	switch {
	case p.PID != 0:
		say("host %d:", p.PID)
	case p.ComparedWith != "":
		say("%s, compared with %s, because no host runs:", cli.Printable(p.Config), cli.Printable(p.ComparedWith))
	default:
		say("%s, which no running host was asked about:", cli.Printable(p.Config))
	}
	if p.Error != "" {
		say("  ! %s", cli.Indented(p.Error))
		return errors.Join(errs...)
	}
	if p.Refused != "" {
		say("  ! the configuration would be refused: %s", cli.Indented(p.Refused))
	}
	for i := range p.Plugins {
		planPluginText(say, &p.Plugins[i])
	}
	for _, c := range p.Settings {
		at := ""
		if c.At != "" && c.At != "default" {
			at = " (" + c.At + ")"
		}
		switch {
		case c.From == "":
			say("  + %s = %s%s", cli.Printable(c.Path), cli.Printable(c.To), cli.Printable(at))
		case c.To == "":
			say("  - %s = %s", cli.Printable(c.Path), cli.Printable(c.From))
		default:
			say("  ~ %s: %s → %s%s", cli.Printable(c.Path), cli.Printable(c.From), cli.Printable(c.To), cli.Printable(at))
		}
	}
	for _, what := range p.Increases {
		say("  PRIVILEGE INCREASE: %s", cli.Printable(what))
	}
	if p.NeedsApproval {
		say("  To apply it: toolhost config reload --approve-privileges")
	}
	if !p.Changes() && !p.Fails() {
		say("  no changes")
	}
	return errors.Join(errs...)
}

func planPluginText(say func(string, ...any), p *host.PluginPlan) {
	text := "plugin " + p.Name
	for _, v := range []*host.PluginVersion{p.From, p.To} {
		if v == nil {
			continue
		}
		if v == p.To && p.From != nil {
			text += " →"
		}
		version := v.Version
		if version == "" {
			version = "of an unknown version"
		}
		text += " " + version
		if v.SHA256 != "" {
			text += fmt.Sprintf(" (%.12s)", v.SHA256)
		}
	}
	if p.Refused != "" {
		text += ": would be refused: " + p.Refused
	}
	say("  %s %s", planSigns[p.Action], cli.Indented(text))
	for _, c := range p.Changes {
		breaks := ""
		if c.Breaks {
			breaks = ", which breaks callers"
		}
		say("      %s%s", cli.Printable(c.String()), breaks)
	}
}
