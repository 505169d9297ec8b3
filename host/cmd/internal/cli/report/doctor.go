package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// NewDoctor returns the command "toolhost doctor".
func NewDoctor(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show how plugins are confined",
		Long: `Show what the kernel enforces on each plugin, what is missing and how to get it. Only the program
that confines plugins is started. The exit status is 1 if a plugin must run confined
(enforce = "require") and cannot, or needs something that it is not granted.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := admin.Diagnose(s.Options())
			if err != nil {
				return err
			}
			if !s.JSON {
				doctorText(screen.New(s.Out), d)
			} else if err := screen.PrintJSON(s.Out, d); err != nil {
				return err
			}
			for _, p := range d.Plugins {
				if p.Refused != "" {
					return process.ExitError(process.ExitFailure)
				}
			}
			return nil
		},
	}
}

// permissionsText prints how the permission rules for programs and paths are enforced.
func permissionsText(w io.Writer, p *admin.PermissionDiagnosis) {
	fmt.Fprintf(w, "programs              %s\n", p.Programs)
	if p.Deny+p.Protect > 0 {
		fmt.Fprintf(w, "paths                 %d denied, %d protected\n", p.Deny, p.Protect)
	}
	fmt.Fprintf(w, "settings              %d protected file names\n", p.Settings)
	for _, g := range p.Missing {
		fmt.Fprintf(w, "  - %s\n      %s\n", g.What, g.How)
	}
}

// verdict returns what matters most of a diagnosis: which plugins cannot run, which run without a sandbox, and how many
// problems are listed.
func verdict(d *admin.Diagnosis) string {
	var refused, open, lacking []string
	for _, p := range d.Plugins {
		switch {
		case p.Refused != "", p.Unloaded != "":
			refused = append(refused, p.Name)
		case p.Backend == "none":
			open = append(open, p.Name)
		case len(p.Missing) > 0:
			lacking = append(lacking, p.Name)
		}
	}
	text := fmt.Sprintf("all %d plugins can run", len(d.Plugins))
	if refused != nil {
		text = fmt.Sprintf("%d of %d plugins cannot run: %s", len(refused), len(d.Plugins), strings.Join(refused, ", "))
	}
	if open != nil {
		text += "; without a sandbox: " + strings.Join(open, ", ")
	}
	if lacking != nil {
		text += "; with less protection, see the lines with -: " + strings.Join(lacking, ", ")
	}
	if n := len(d.Problems); n > 0 {
		text += fmt.Sprintf("; problems, see the lines with !: %d", n)
	}
	return text
}

func doctorText(w io.Writer, d *admin.Diagnosis) {
	fmt.Fprintf(w, "result                %s\n", screen.Printable(verdict(d)))
	m := d.Machine
	yes := map[bool]string{true: "yes", false: "no"}
	namespaces := yes[m.Namespaces]
	if !m.Namespaces && m.NoNamespaces != "" {
		namespaces += ": " + m.NoNamespaces
	}
	landlock := "no"
	if m.ABI > 0 {
		landlock = fmt.Sprintf("version %d", m.ABI)
	}
	fmt.Fprintf(w, "configuration         %s\nnamespaces            %s\nLandlock              %s\nsystem call filters   %s\n", d.Config, namespaces, landlock, yes[m.Seccomp])
	if c := d.Container; c != nil {
		text := screen.Printable(c.Engine)
		if !m.Namespaces {
			text += ", which does not permit the namespaces of the sandbox: " + c.Remedy
		}
		fmt.Fprintf(w, "container             %s\n", text)
	}
	cgroups := "yes"
	if m.NoCgroup != "" {
		cgroups = "no: " + m.NoCgroup
	}
	fmt.Fprintf(w, "cgroup to divide      %s\n", cgroups)
	var backends []string
	for _, b := range d.Backends {
		if b.Unusable == "" {
			backends = append(backends, b.Name)
		} else {
			backends = append(backends, fmt.Sprintf("%s (unusable: %s)", b.Name, b.Unusable))
		}
	}
	branches := map[string]string{"overlay": "yes", "shared copy": "yes, as copies that share their data with the workspace", "copy": "yes, as copies without what git ignores"}[d.Branches]
	if d.NoBranches != "" {
		branches = "no: " + screen.Printable(d.NoBranches)
	}
	fmt.Fprintf(w, "branches              %s\n", branches)
	fmt.Fprintf(w, "sandbox backends      %s\n", strings.Join(backends, ", "))
	known := map[string]string{"content": "known by their content", "directory": "known by their directory: anybody who can write there can replace them"}
	fmt.Fprintf(w, "bundled plugins       %s\n", known[d.BundledBy])
	if len(d.Off) > 0 {
		fmt.Fprintf(w, "turned off            %s\n", screen.Printable(strings.Join(d.Off, ", ")))
	}
	for _, problem := range d.Problems {
		fmt.Fprintf(w, "! %s\n", screen.Indented(problem))
	}
	permissionsText(w, &d.Permissions)
	if m.Launcher == "" {
		fmt.Fprintf(w, "no plugin is confined: %s\n", m.NoLauncher)
	}
	for _, p := range d.Plugins {
		pluginText(w, &p)
	}
}

// pluginText prints how one plugin is confined.
func pluginText(w io.Writer, p *admin.PluginDiagnosis) {
	fmt.Fprintf(w, "\n%s: backend %s, enforce %s\n", screen.Printable(p.Name), p.Backend, p.Enforce)
	if origin := strings.Join(slices.DeleteFunc([]string{p.From, p.Relation}, func(s string) bool { return s == "" }),
		", "); origin != "" {
		fmt.Fprintf(w, "  from: %s\n", screen.Printable(origin))
	}
	if p.Refused != "" {
		fmt.Fprintf(w, "  refused: %s\n", p.Refused)
	}
	switch {
	case p.Needs == nil && p.Heard:
		fmt.Fprintln(w, "  needs: not declared")
	case p.Needs == nil:
		fmt.Fprintln(w, "  needs: unknown until the first start")
	case len(p.Needed) == 0:
		fmt.Fprintln(w, "  needs: nothing")
	default:
		fmt.Fprintf(w, "  needs: %s\n", screen.Printable(strings.Join(p.Needed, "; ")))
	}
	for _, e := range p.Enforced {
		fmt.Fprintf(w, "  + %s\n", screen.Printable(e))
	}
	for _, u := range p.Unneeded {
		fmt.Fprintf(w, "  ! not needed: %s\n      %s\n", screen.Printable(u.What), screen.Printable(u.How))
	}
	for _, g := range p.Missing {
		fmt.Fprintf(w, "  - %s\n      %s\n", screen.Printable(g.What), screen.Printable(g.How))
	}
}
