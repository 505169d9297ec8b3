package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/report"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/terminal"
	"toolhost.dev/host/develop"
	"toolhost.dev/sdk/toolrpc"
)

func newPluginDev(s *globals.Settings) *cobra.Command {
	var debug, wait bool
	var with string
	c := &cobra.Command{
		Use:   "dev DIR",
		Short: "Rebuild and reload a plugin on each change",
		Long: `Watch the sources of a plugin, build them at each change, and replace the plugin in a separate
host, which has a prompt like that of repl. If a build fails or a version does not start, the
error is shown and the previous version continues. DIR contains a toolhost-plugin.json, which
plugin new creates.
The host has the plugin and the bundled ones, unless --config names another configuration. Other
hosts that run the plugin also apply new versions, as far as their configuration permits.
The file dev.hcl in DIR, or the file of --with, contains settings for the plugin's block, such as
config { }. Changes of this file are applied like changes of the sources. The plugin is granted
what it declares to need.
With --debug, the plugin is built without optimization (Go), is not confined, and has long
timeouts; the command that attaches a debugger is printed at each start. With --wait, the plugin
also waits for the debugger before it serves.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := develop.Open(s.Path(args[0]), s.Err)
			if err != nil {
				return err
			}
			if debug = debug || wait; debug {
				src.Env = append(src.Env, strings.TrimSpace("GOFLAGS="+s.Getenv("GOFLAGS")+` '-gcflags=./...=-N -l'`))
			}
			if s.OnAsk == "" && screen.IsTerminal(s.In) {
				s.OnAsk = "prompt"
			}
			if wait {
				// The plugin inherits the environment of this process.
				if err := os.Setenv(toolrpc.WaitEnv, "1"); err != nil {
					return err
				}
			}
			if with != "" {
				if src.SettingsFile, err = filepath.Abs(s.Path(with)); err == nil {
					_, err = os.Stat(src.SettingsFile)
				}
				if err != nil {
					return err
				}
			}
			d := &dev{src: src, settings: s, opts: develop.Options{Debug: debug, Wait: wait}, cmd: c}
			return d.run(c.Context())
		},
	}
	c.Flags().BoolVar(&debug, "debug", false, "build for a debugger, and print how to attach one")
	c.Flags().BoolVar(&wait, "wait", false, "like --debug, but the plugin waits for the debugger before it serves")
	c.Flags().StringVar(&with, "with", "", "HCL `file` with settings for the plugin's block (default: dev.hcl in DIR, if it exists)")
	return c
}

// dev builds and reloads a plugin after each change of its source code.
type dev struct {
	src      *develop.Sources
	settings *globals.Settings
	opts     develop.Options
	cmd      *cobra.Command

	// temporary is true if the command created the configuration and deletes it before it ends.
	temporary bool
	// text is the content of the temporary configuration. applied is the text that the host currently uses.
	text, applied string
	host          *host.Host // nil before the first successful build
}

func (d *dev) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.settings.Config == "" {
		dir, err := os.MkdirTemp("", "toolhost-dev")
		if err != nil {
			return err
		}
		d.settings.Config, d.temporary = filepath.Join(dir, "toolhost.hcl"), true
		d.settings.Edit = d.locate
		defer d.remove(dir)
	}
	var watching sync.WaitGroup
	changes := make(chan struct{}, 1)
	var watchErr error
	watching.Go(func() {
		watchErr = d.src.Watch(ctx, slog.New(slog.DiscardHandler), func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
		cancel() // end the command, because changes are not reported any more
	})
	defer func() {
		cancel()
		watching.Wait()
		err = errors.Join(err, watchErr)
		if d.host != nil {
			err = errors.Join(err, d.host.Close())
		}
	}()
	ended := make(chan error, 1)
	for {
		d.turn(ctx, ended)
		select {
		case <-changes:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// configure writes the temporary configuration, which contains the plugin. It grants the plugin the permissions that
// the new binary declares in its needs.
func (d *dev) configure(ctx context.Context) error {
	if !d.temporary {
		return nil
	}
	env := make(map[string]string)
	for _, name := range d.src.Manifest.Needs.Env {
		if v, ok := d.settings.LookupEnv(name); ok {
			env[name] = v
		}
	}
	if desc, err := develop.Describe(ctx, d.src.Binary(), nil, env); err == nil { // if this fails, the reload shows the error
		d.opts.Needs = desc.Needs
	}
	var err error
	if d.opts.Settings, err = d.src.Settings(); err != nil {
		return err
	}
	d.text = d.src.Config(d.opts)
	return os.WriteFile(d.settings.Config, []byte(d.text), 0o600)
}

// remove removes the temporary configuration and its trust.
func (d *dev) remove(dir string) {
	_, _ = admin.RevokeContent(d.settings.Options(), dir)
	_ = os.RemoveAll(dir)
}

// locate replaces positions in the temporary configuration by positions in the developer's file.
func (d *dev) locate(text string) string {
	if !d.temporary {
		return text
	}
	return d.src.Locate(text, d.settings.Config, d.opts)
}

// refused prints why the host does not use the new version of the plugin.
func (d *dev) refused(r *host.Reload) {
	var b strings.Builder
	reloadText(&b, []reloaded{{PID: os.Getpid(), Reload: r}})
	text := d.locate(b.String())
	fmt.Fprint(screen.New(d.settings.Err), text)
	if d.temporary && d.opts.Settings == "" && strings.Contains(text, "missing required attribute") {
		fmt.Fprintf(d.settings.Err, "dev: write the plugin's configuration to %s: config { … }\n", d.src.SettingsFile)
	}
	fmt.Fprintln(d.settings.Err, "dev: the new version is not used; what ran before goes on")
}

// turn builds and reloads the plugin once. It only prints errors, because the developer can fix an error
// with the next change.
func (d *dev) turn(ctx context.Context, ended chan<- error) {
	say := func(format string, a ...any) {
		fmt.Fprintln(d.settings.Err, d.locate("dev: "+fmt.Sprintf(format, a...)))
	}
	name := d.src.Manifest.Name
	if err := d.src.Build(ctx); err != nil {
		if ctx.Err() == nil {
			say("the build failed (%v); what ran before goes on", err)
		}
		return
	}
	if err := errors.Join(d.configure(ctx), d.trust()); err != nil {
		say("the new version is not used: %v", err)
		return
	}
	first := d.host == nil
	if first {
		h, err := d.settings.OpenLive(d.cmd, host.Options{RetryFailed: true})
		if err != nil {
			say("the host does not start: %v", err)
			return
		}
		d.host, d.applied = h, d.text
	}
	r, err := new(host.Reload), error(nil)
	if !first || !d.opts.Wait { // a new host has just started the plugin
		opts := host.ReloadOptions{AcceptChanges: true}
		if d.text == d.applied {
			opts.Plugins = []string{name} // reload it even if its program is unchanged, because other files can belong to it
		}
		r, err = d.host.Reload(ctx, opts)
	}
	switch {
	case ctx.Err() != nil: // the developer ends the command
	case err != nil:
		say("%v", err)
	case r.Refused():
		d.refused(r)
	case d.running(name) == 0:
		say("the new version does not run")
	default:
		d.applied = d.text
		say("%s is ready", d.src.Binary())
		d.attach(name)
	}
	if first {
		go d.prompt(ctx, ended)
	}
}

// trust marks the new binary as trusted, because the developer has requested to run it. If the developer has named a
// configuration, trust changes no other decision about this configuration.
func (d *dev) trust() error {
	opts := d.settings.Options()
	if !d.temporary {
		return admin.RenewContent(opts, d.src.Binary())
	}
	r, err := admin.ReviewContent(opts)
	if err == nil && r.Status == "untrusted" {
		_, err = admin.TrustContent(opts, r.Digest)
	}
	return err
}

// attach prints the command that attaches a debugger to the running plugin.
func (d *dev) attach(name string) {
	if !d.opts.Debug {
		return
	}
	pid := d.running(name)
	command := fmt.Sprintf("sudo dlv attach %d %s", pid, d.src.Binary())
	switch d.src.Manifest.Runtime {
	case "node":
		command = fmt.Sprintf("node inspect -p %d", pid)
	case "python":
		command = fmt.Sprintf("sudo python3 -m debugpy --listen 127.0.0.1:5678 --pid %d", pid)
	}
	fmt.Fprintln(d.settings.Err, "dev: to debug it:", command)
}

// running returns the process id of the plugin, or 0 if the plugin does not run.
func (d *dev) running(name string) int {
	for _, p := range d.host.Status().Plugins {
		if p.Name == name && p.Running {
			return p.PID
		}
	}
	return 0
}

// prompt runs commands until the input ends. The end of the input ends the program only if the input is a terminal. If
// the input is a file or a pipe, the program then continues until the user interrupts it.
func (d *dev) prompt(ctx context.Context, ended chan<- error) {
	p := terminal.Prompt{Stdio: d.settings.Stdio, Host: d.host, Request: d.settings.Request(), JSON: d.settings.JSON,
		Status: report.Status}
	if err := p.Run(ctx); err != nil || screen.IsTerminal(d.settings.In) {
		ended <- err
	}
}
