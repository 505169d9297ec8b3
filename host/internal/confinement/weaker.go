package confinement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
)

// weaker describes the restrictions that are not enforced on a plugin because this machine lacks the wanted backend. It
// returns "" if the plugin is confined as configured.
func (l *Launcher) weaker(p *config.Plugin, roots []tool.Root) string {
	lost, why := l.lost(p, roots)
	return l.describeLost(why, lost)
}

// lost returns the restrictions that are not enforced on a plugin, and the reason.
func (l *Launcher) lost(p *config.Plugin, roots []tool.Root) (lost []string, why error) {
	if Enforce(l.cfg, p) != "auto" || p.Missing != "" {
		return nil, nil
	}
	wanted, why := l.Kernel().Fallback(l.cfg.Sandbox.Backend)
	if ungated := l.Ungated(p, roots); why == nil && ungated != "" {
		return []string{Ungated}, errors.New(ungated)
	}
	if why == nil && !l.advice(p) {
		return nil, nil
	}
	backend, _, refused := l.Choose(p, roots)
	switch {
	case refused != nil:
		return nil, nil //nolint:nilerr // the plugin does not run
	case why != nil:
		prof := l.Profile(p)
		return lostBy(&prof, l.Kernel(), wanted, backend), why
	case backend.Abilities().OwnRoot:
		return nil, nil
	}
	return []string{Advice}, errors.New("the configuration or the plugin's roots do not permit the backend ns")
}

func (l *Launcher) describeLost(why error, lost []string) string {
	if len(lost) == 0 {
		return ""
	}
	backend, _ := l.Kernel().Choose(l.cfg.Sandbox.Backend)
	return fmt.Sprintf(`The sandbox is weaker than it can be: the backend is %s, because %v. Not enforced: %s. Run toolhost doctor for the remedy, or set enforce = "require" to refuse`,
		backend.Name(), why, strings.Join(lost, "; "))
}

// Problem describes the restrictions that are not enforced, for all plugins of the configuration together. It returns
// "" if all plugins are confined as configured.
func (l *Launcher) Problem(roots []tool.Root) string {
	var why error
	var lost []string
	for i := range l.cfg.Plugins {
		some, w := l.lost(&l.cfg.Plugins[i], roots)
		for _, s := range some {
			if why = w; !slices.Contains(lost, s) {
				lost = append(lost, s)
			}
		}
	}
	return l.describeLost(why, lost)
}
