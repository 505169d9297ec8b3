package configcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// exitChanges is the exit status if the plan contains changes.
const exitChanges = 2

// planned is the plan of one host. A zero PID means that this process created the plan.
type planned struct {
	PID int `json:"pid,omitempty"`
	*host.Plan
	Error string `json:"error,omitempty"`
}

func newConfigPlan(s *globals.Settings) *cobra.Command {
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
			all, err := plans(c.Context(), s, s.Path(against))
			if err != nil { // avoid status 2, which means that the plan contains changes
				fmt.Fprintln(s.Err, "toolhost:", screen.Clean(err.Error()))
				return process.ExitError(process.ExitFailure)
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, all)
			} else {
				for _, p := range all {
					err = errors.Join(err, planText(screen.New(s.Out), p))
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
			return process.ExitError(process.ExitFailure)
		case p.Changes():
			status = process.ExitError(exitChanges)
		}
	}
	return status
}

// plans requests a plan from each running host. If no host runs, or if against is set, this process creates the plan.
func plans(ctx context.Context, s *globals.Settings, against string) ([]planned, error) {
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
		say("%s, compared with %s, because no host runs:", screen.Printable(p.Config), screen.Printable(p.ComparedWith))
	default:
		say("%s, which no running host was asked about:", screen.Printable(p.Config))
	}
	if p.Error != "" {
		say("  ! %s", screen.Indented(p.Error))
		return errors.Join(errs...)
	}
	if p.Refused != "" {
		say("  ! the configuration would be refused: %s", screen.Indented(p.Refused))
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
			say("  + %s = %s%s", screen.Printable(c.Path), screen.Printable(c.To), screen.Printable(at))
		case c.To == "":
			say("  - %s = %s", screen.Printable(c.Path), screen.Printable(c.From))
		default:
			say("  ~ %s: %s → %s%s", screen.Printable(c.Path), screen.Printable(c.From), screen.Printable(c.To),
				screen.Printable(at))
		}
	}
	for _, what := range p.Increases {
		say("  PRIVILEGE INCREASE: %s", screen.Printable(what))
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
	say("  %s %s", planSigns[p.Action], screen.Indented(text))
	for _, c := range p.Changes {
		breaks := ""
		if c.Breaks {
			breaks = ", which breaks callers"
		}
		say("      %s%s", screen.Printable(c.String()), breaks)
	}
}
