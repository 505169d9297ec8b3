package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/quota"
)

type quotaHCL struct {
	Subject string    `hcl:"subject,label"`
	Breaker *bodyHCL  `hcl:"breaker,block"`
	Rest    hcl.Body  `hcl:",remain"`
	At      hcl.Range `hcl:",def_range"`
}

var quotaTable = newTable(
	row("parallel", count(func(l *quota.Limits) *int { return &l.Parallel }, leastOrNoLimit), higher, "(no limit)", "Maximum number of calls at the same time."),
	row("calls_per_minute", count(func(l *quota.Limits) *int { return &l.CallsPerMinute }, leastOrNoLimit), higher, "(no limit)", "Calls that become available in a minute. As many can be saved up."),
	row("bytes_per_minute", size(func(l *quota.Limits) *uint64 { return &l.BytesPerMinute }), higher, "(no limit)", "Bytes of arguments and results that become available in a minute."),
)

var breakerTable = newTable(
	row("failures", count(func(b *quota.Breaker) *int { return &b.Failures }, "At least one failure opens the breaker. Leave the block out for no breaker."), higher, "5", "Failures in a row that open the breaker."),
	row("pause", duration(func(b *quota.Breaker) *time.Duration { return &b.Pause }), lower, `"30s"`, "Time for which calls are refused. Then one call tries whether the subject works again."),
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
		return append(out,
			slices.DeleteFunc(slices.Clone(ReservedPrincipals), func(s string) bool { return s == "unix" })...)
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

func (d *decoder) quota(b *quotaHCL) (out quota.Limits) {
	at := quotaTable.read(d, b.Rest, &out)
	if b.Breaker != nil {
		out.Breaker = breakerTable.defaults()
		breakerTable.read(d, b.Breaker.Body, &out.Breaker)
	}
	if len(at) == 0 && b.Breaker == nil {
		d.fail(b.At, fmt.Sprintf("Quota %q limits nothing", b.Subject), "Set parallel, calls_per_minute, bytes_per_minute or a breaker block.")
	}
	return out
}
