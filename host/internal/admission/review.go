package admission

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
)

// Item is one effect of trusting a configuration.
type Item struct {
	// Effect is "runs", "permits" or "reads".
	Effect string `json:"effect"`
	// Subject names the block or the file. Detail describes the effect.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	// New reports whether the item is missing in the last trusted content.
	New bool `json:"new"`
}

func (i Item) line() string { return i.Effect + "\t" + i.Subject + "\t" + i.Detail }

// Review describes a configuration for the person who decides about its trust.
type Review struct {
	// Config is the path of the configuration. Digest identifies its content.
	Config string `json:"config"`
	Digest string `json:"digest"`
	// Status is "trusted", "untrusted", "restricts" for a file that needs no trust, or "operator" for an operator's
	// file.
	Status string `json:"status"`
	// Why is the reason why the configuration is not trusted.
	Why string `json:"why,omitempty"`
	// Files and Programs map the paths that the digest covers to their SHA-256.
	Files    map[string]string `json:"files"`
	Programs map[string]string `json:"programs"`
	Items    []Item            `json:"items"`
	// Trusted is the time of the last decision to trust this path. It is zero if no such decision exists. Changed lists
	// the paths with different content since then.
	Trusted time.Time `json:"trusted,omitzero"`
	Changed []string  `json:"changed,omitempty"`

	content *trust.Content
	// restrictions contains the restrictions in the configuration.
	restrictions *restrictions
}

// ErrNothing is the error of Review if no configuration needs trust.
var ErrNothing = errors.New("there is no project file: toolhost.hcl does not exist here, and no configuration is named")

// Review evaluates the configuration and lists its effects. It starts no programs.
func (s Source) Review() (*Review, error) {
	if s.Path == "" {
		return nil, ErrNothing
	}
	decisions, base, err := s.base()
	if err != nil {
		return nil, err
	}
	cfg, err := s.Load()
	if err != nil {
		return nil, err
	}
	content, err := s.content(cfg)
	if err != nil {
		return nil, err
	}
	out := &Review{
		Config: content.Config, Digest: content.Digest(), Status: "untrusted", Files: content.Files,
		Programs: content.Programs,
		Items:    s.items(base, cfg, content), content: content, restrictions: restrictionsOf(cfg),
	}
	old, err := decisions.Of(content.Config)
	switch {
	case err != nil:
		out.Why = err.Error()
	case old != nil:
		out.Trusted, out.Changed = old.At, old.Differences(content)
	}
	for i := range out.Items {
		out.Items[i].New = old == nil || !slices.Contains(old.Review, out.Items[i].line())
	}
	project := s.IsProject() || s.writableFile(cfg) != ""
	_, why := s.trusted(decisions)
	switch {
	case !project && len(content.Programs) == 0:
		out.Status = "operator"
	case project && old == nil && config.ReadNarrowing(s.Path).Complete:
		out.Status = "restricts"
	case why == nil && (old == nil || len(out.Changed) == 0):
		out.Status = "trusted"
	default:
		if out.Why = cmp.Or(out.Why, "a program changed"); why != nil {
			out.Why = why.Error()
		}
	}
	return out, nil
}

// items lists the effects of a configuration that the configuration in the parameter "base" does not have.
func (s Source) items(base, cfg *config.Config, content *trust.Content) (out []Item) {
	masker := audit.New(cfg.Hidden())
	for _, p := range cfg.Programs(s.BundledDir) {
		path := program(newLook(), p)
		detail := masker.Command(cfg.Hide(strings.Join(p.Command, " ")))
		switch sum := content.Programs[path]; {
		case sum != "":
			detail += fmt.Sprintf("  (tools can write %s; SHA-256 %.12s…)", path, sum)
		case path != p.Command[0]:
			detail += "  (" + path + ")"
		}
		out = append(out, Item{Effect: "runs", Subject: p.Block, Detail: detail})
	}
	for _, increase := range privilege.Increases(base, cfg, nil) {
		out = append(out, Item{Effect: "permits", Subject: filepath.Base(content.Config), Detail: increase})
	}
	for path, sum := range content.Files {
		if sum != "" && path != content.Config {
			out = append(out, Item{Effect: "reads", Subject: filepath.Base(path), Detail: path})
		}
	}
	slices.SortStableFunc(out, func(a, b Item) int {
		order := []string{"runs", "permits", "reads"}
		return cmp.Or(cmp.Compare(slices.Index(order, a.Effect), slices.Index(order, b.Effect)),
			strings.Compare(a.Subject, b.Subject))
	})
	return out
}

// Trust records that a person trusts the reviewed content. It returns an error if the content changed after the review.
func (s Source) Trust(digest string) (*Review, error) {
	r, err := s.Review()
	if err != nil {
		return nil, err
	}
	if r.Digest != digest {
		return nil, fmt.Errorf("the content of %s has the digest %s, not %s: it changed since it was reviewed, or the digest belongs to another place. Review it again: toolhost trust", r.Config, r.Digest, digest)
	}
	decisions, _, err := s.base()
	if err != nil {
		return nil, err
	}
	if config.ReadNarrowing(s.Path).Complete { // such a file needs no decision, and an old one would add restrictions
		_, err := decisions.Revoke(r.Config)
		return r, err
	}
	d := trust.Decision{Content: *r.content, At: time.Now().UTC().Truncate(time.Second)}
	if d.Restrictions, err = json.Marshal(r.restrictions); err != nil {
		return nil, err
	}
	for _, i := range r.Items {
		d.Review = append(d.Review, i.line())
	}
	return r, decisions.Record(d)
}

// Renew updates the recorded hashes of files and programs of a trusted configuration. It is called after a person
// changed these files with a command of the host. It does nothing if nobody trusted the configuration.
func (s Source) Renew(paths ...string) error {
	if s.Path == "" {
		return nil
	}
	decisions, _, err := s.base()
	if err != nil {
		return err
	}
	key, err := canonical(s.Path)
	if err != nil {
		return err
	}
	old, err := decisions.Of(key)
	if err != nil || old == nil {
		return err
	}
	for _, path := range paths {
		if path, err = canonical(path); err != nil {
			return err
		}
		for _, sums := range []map[string]string{old.Files, old.Programs} {
			if _, known := sums[path]; !known {
				continue
			}
			if sums[path], err = trust.Hash(path); err != nil {
				return err
			}
		}
	}
	return decisions.Record(*old)
}

// Decisions returns the trust store.
func (s Source) Decisions() (*trust.Decisions, error) {
	decisions, _, err := s.base()
	return decisions, err
}

// decisionsPath returns the path of the trust store. It reads no configuration if no configuration can name a state
// directory.
func (s Source) decisionsPath() (string, error) {
	if s.StateDir == "" && s.operator().Path != "" {
		d, err := s.Decisions()
		if err != nil {
			return "", err
		}
		return d.Path(), nil
	}
	dir, err := state.FindDir(s.StateDir)
	return trust.OpenDecisions(dir).Path(), err
}

// Watched lists additional files that affect the choice of the configuration, such as the trust store. The host must
// reload the configuration after a change of these files.
func (s Source) Watched() (paths []string) {
	if s.Path == "" {
		return nil
	}
	if path, err := s.decisionsPath(); err == nil {
		paths = append(paths, path)
	}
	if lock, err := trust.PathFor(s.Path); err == nil {
		paths = append(paths, lock)
	}
	if user := config.FindUser(); user != "" && !samePath(user, s.Path) {
		paths = append(paths, user)
	}
	names, err := config.List(s.Path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return paths
	}
	return append(paths, names...)
}
