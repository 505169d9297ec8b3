package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/quota"
)

type quotaHCL struct {
	Subject        string         `hcl:"subject,label"`
	Parallel       hcl.Expression `hcl:"parallel,optional"`
	CallsPerMinute hcl.Expression `hcl:"calls_per_minute,optional"`
	BytesPerMinute hcl.Expression `hcl:"bytes_per_minute,optional"`
	Breaker        *breakerHCL    `hcl:"breaker,block"`
	At             hcl.Range      `hcl:",def_range"`
}

type breakerHCL struct {
	Failures hcl.Expression `hcl:"failures,optional"`
	Pause    hcl.Expression `hcl:"pause,optional"`
}

// Default settings of a breaker.
const (
	defaultBreakerFailures = 5
	defaultBreakerPause    = 30 * time.Second
)

// quotas collects the limits of fields and principals.
func (d *decoder) quotas(blocks []quotaHCL) {
	seen := make(map[string]hcl.Range)
	for _, b := range blocks {
		kind, name, ok := quota.ParseSubject(b.Subject)
		if !ok {
			d.fail(b.At, fmt.Sprintf("%q cannot have a quota", b.Subject), "Name a field, such as quota \"field:jira\", or a principal, such as quota \"principal:ci\". The name * stands for each one without a quota of its own.")
			continue
		}
		if first, dup := seen[b.Subject]; dup {
			d.fail(b.At, fmt.Sprintf("Quota %q is configured twice", b.Subject), "The first block is at %s:%d. Put both into one.", first.Filename, first.Start.Line)
			continue
		}
		seen[b.Subject] = b.At
		user := kind == quota.KindPrincipal && strings.HasPrefix(name, "unix:")
		if known := d.quotaNames(kind); name != "*" && !user && !slices.Contains(known, name) {
			d.fail(b.At, fmt.Sprintf("There is no %s %q", kind, name), "Use the name of a %s block, or * for all of them.%s", kind, suggest.DidYouMean(name, known))
			continue
		}
		if d.cfg.Quotas == nil {
			d.cfg.Quotas = make(quota.Rules)
		}
		d.cfg.Quotas[quota.Subject(b.Subject)] = d.quota(&b)
	}
}

// quotaNames returns the names of the subjects of a kind.
func (d *decoder) quotaNames(kind string) (out []string) {
	if kind == quota.KindPrincipal {
		for _, p := range d.cfg.Access.Principals {
			out = append(out, p.Name)
		}
		return append(out, slices.DeleteFunc(slices.Clone(ReservedPrincipals), func(s string) bool { return s == "unix" })...)
	}
	for _, p := range d.cfg.Plugins {
		if p.Field != "" {
			out = append(out, p.Field)
		}
	}
	for _, a := range d.cfg.absent {
		if a.Field != "" {
			out = append(out, a.Field)
		}
	}
	return out
}

func (d *decoder) quota(b *quotaHCL) quota.Limits {
	out := quota.Limits{
		Parallel:       d.positive(b.Parallel, "parallel", "At least one call must be possible. Leave it out for no limit."),
		CallsPerMinute: d.positive(b.CallsPerMinute, "calls_per_minute", "At least one call must be possible. Leave it out for no limit."),
		BytesPerMinute: d.size(b.BytesPerMinute),
	}
	if out.BytesPerMinute == math.MaxUint64 {
		out.BytesPerMinute = 0
	}
	if b.Breaker != nil {
		out.Breaker.Failures = d.positive(b.Breaker.Failures, "failures", "At least one failure opens the breaker. Leave the block out for no breaker.")
		out.Breaker.Pause = d.duration(b.Breaker.Pause)
		if out.Breaker.Failures == 0 {
			out.Breaker.Failures = defaultBreakerFailures
		}
		if out.Breaker.Pause == 0 {
			out.Breaker.Pause = defaultBreakerPause
		}
	}
	if !given(b.Parallel) && !given(b.CallsPerMinute) && !given(b.BytesPerMinute) && b.Breaker == nil {
		d.fail(b.At, fmt.Sprintf("Quota %q limits nothing", b.Subject), "Set parallel, calls_per_minute, bytes_per_minute or a breaker block.")
	}
	return out
}
