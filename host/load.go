package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
)

// binary is a plugin's binary as it was at some moment.
type binary struct {
	// file is which one it was; empty: there was none.
	file string
	// sum is its SHA-256; nil: it could not be read.
	sum *[32]byte
	// key is what the plugin's description is kept under: its binary and the way it is run,
	// since what it serves may depend on both.
	key   [32]byte
	keyed bool
}

func binaryOf(db *state.DB, p *config.Plugin) binary {
	b := binary{file: state.FileIdentity(p.Path)}
	hash, err := db.BinaryHash(p.Path)
	if err != nil {
		return b
	}
	b.sum = &hash
	how, err := json.Marshal([]any{hash, p.Args, p.Env, p.Config}) // maps marshal sorted
	if err == nil {
		b.key, b.keyed = sha256.Sum256(how), true
	}
	return b
}

// load makes the first generation of a configuration. The error is about the operator's
// rules, without which nothing may run. What a plugin serves is known from what
// its binary said before, else it is started; those that must be are started side by side.
func (h *Host) load(ctx context.Context, cfg *config.Config, conf *confinement) (*generation, error) {
	members := make([]*member, len(cfg.Plugins))
	peers := func(name string) *member {
		return members[slices.IndexFunc(members, func(m *member) bool { return m.Name == name })]
	}
	for i, p := range cfg.Plugins {
		members[i] = h.newMember(p, cfg, conf, peers, nil)
	}
	var wg sync.WaitGroup
	for i, p := range cfg.Plugins {
		m := members[i]
		if p.Missing != "" {
			m.err = errors.New(p.Missing)
			continue
		}
		if err := h.pins.check(p.Name, p.Path); err != nil {
			m.err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
			continue
		}
		m.binary = binaryOf(h.state, &p)
		var desc *tool.Description
		if m.binary.keyed {
			desc, m.checked, m.err = h.remembered(m.binary.key)
			m.desc.Store(desc)
		}
		if desc == nil && m.err == nil {
			wg.Go(func() { m.err = h.ask(ctx, m) })
		}
	}
	wg.Wait()
	for _, m := range members {
		if m.err == nil {
			err := h.pins.accept(m.Name, m.desc.Load())
			if err == nil {
				err = lacks(&m.Plugin, m.desc.Load().Needs)
			}
			if err != nil {
				m.err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", m.Name, err)
			}
		}
	}
	g, _, err := h.assemble(cfg, conf, members)
	return g, err
}

// A plugin that took longer than slowFailure to fail is not tried again for
// failureMemory, unless Options.RetryFailed says so.
const (
	slowFailure   = time.Second
	failureMemory = time.Minute
)

// remembered gives what is known without starting the plugin, and whether it needs no more
// checks; without a description and an error: nothing.
func (h *Host) remembered(key [32]byte) (desc *tool.Description, checked bool, err error) {
	desc, by, err := h.state.Description(key)
	if err != nil {
		h.log.Warn("what plugins said of themselves cannot be read", "error", err)
	}
	if desc != nil || h.opts.RetryFailed {
		return desc, by == Version, nil
	}
	why, at, err := h.state.Failure(key)
	if age := time.Since(at); err == nil && why != "" && age < failureMemory {
		return nil, false, tool.Errorf(tool.Unavailable, "%s (That was %s ago; it is tried again after %s, when its binary changes, or by toolhost status.)",
			why, age.Round(time.Second), failureMemory)
	}
	return nil, false, nil
}

// ask starts the plugin to hear what it serves, and keeps that.
func (h *Host) ask(ctx context.Context, m *member) error {
	began := time.Now()
	desc, err := m.plugin.Describe(ctx)
	var kept error
	switch {
	case !m.binary.keyed:
	case err == nil:
		kept = h.keep(m, desc)
	case m.refused.Load(): // what it said is kept
	case ctx.Err() == nil && time.Since(began) > slowFailure:
		kept = h.state.SaveFailure(m.binary.key, err.Error())
	}
	if kept != nil {
		h.log.Warn("what a plugin said of itself could not be kept", "plugin", m.Name, "error", kept)
	}
	if err == nil {
		m.desc.Store(desc)
	}
	return err
}

// keep remembers what a plugin said of itself.
func (h *Host) keep(m *member, desc *tool.Description) error {
	by := Version
	if slices.ContainsFunc(desc.Tools, func(d tool.Definition) bool { return d.Validate() != nil }) {
		by = ""
	}
	return h.state.SaveDescription(m.binary.key, desc, by)
}

// discovered takes over the tools that a plugin has now, when they are not those that it was
// registered with, which are what it said the last time. Calls that have begun go on.
func (h *Host) discovered(m *member, known, now *tool.Description) {
	changes := registry.Compare(known.Tools, now.Tools)
	if len(changes) == 0 {
		return
	}
	h.log.Warn("the tools of a plugin are not those that it had; calls from now on find the new ones", "plugin", m.Name, "changes", changes)
	if m.binary.keyed {
		if err := h.state.SaveDescription(m.binary.key, now, ""); err != nil {
			h.log.Warn("what a plugin said of itself could not be kept", "plugin", m.Name, "error", err)
		}
	}
	go func() { // who starts the plugin may hold the lock
		h.reloads.one.Lock()
		defer h.reloads.one.Unlock()
		if g := h.current.Load(); g != nil && g.member(m.Name) == m && !h.reloads.over() {
			m.desc.Store(now)
			m.checked = false
			h.renew()
		}
	}()
}

// newID makes the id of a call: unique in this process, and hardly guessed outside of it.
func (h *Host) newID() string {
	return h.idPrefix + strconv.FormatUint(h.lastID.Add(1), 36)
}

func randomPrefix() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}
