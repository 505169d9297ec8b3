package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

type tracingHCL struct {
	Endpoint hcl.Expression    `hcl:"endpoint,optional"`
	Headers  map[string]string `hcl:"headers,optional"`
	Sample   hcl.Expression    `hcl:"sample,optional"`
	Enabled  *bool             `hcl:"enabled,optional"`
	At       hcl.Range         `hcl:",def_range"`
}

// Tracing configures the destination of traces. For zero fields, environment variables apply.
type Tracing struct {
	// Off disables tracing, regardless of the environment variables.
	Off bool
	// Endpoint is the URL of a collector, without the path /v1/traces. Empty means that the environment variable
	// applies.
	Endpoint string
	Headers  map[string]string
	// Sample is the fraction of traces to record. Nil means that the environment variable applies. If the variable is
	// also unset, all traces are recorded.
	Sample *float64
}

func (d *decoder) tracing(t *tracingHCL) {
	out := &d.cfg.Tracing
	out.Off, out.Headers = t.Enabled != nil && !*t.Enabled, t.Headers
	if given(t.Endpoint) {
		out.Endpoint = d.text(t.Endpoint)
		if u, err := url.Parse(out.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			d.fail(t.Endpoint.Range(), fmt.Sprintf("%q is no address of a collector", out.Endpoint), "Write one such as \"http://localhost:4318\", which takes OTLP over HTTP.")
		}
		out.Endpoint = strings.TrimSuffix(out.Endpoint, "/")
	}
	if given(t.Sample) {
		var n float64
		diags := gohcl.DecodeExpression(t.Sample, d.ctx, &n)
		d.add(diags)
		if !diags.HasErrors() && (n < 0 || n > 1) {
			d.fail(t.Sample.Range(), fmt.Sprintf("%v is no share", n), "Write a number from 0, for none, to 1, for all traces.")
		}
		out.Sample = &n
	}
}
