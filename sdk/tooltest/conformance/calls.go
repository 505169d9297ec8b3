package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// made is one call of the checks, together with the outcome of the call.
type made struct {
	call
	*spoken
}

func (s *suite) startOf(c call) *toolpb.Start {
	return &toolpb.Start{
		CallId: "conformance", Tool: c.Tool, Arguments: c.Arguments, SessionId: "conformance", Cwd: s.workspace(),
		Roots:     s.roots(),
		TimeoutMs: s.opts.Patience.Milliseconds(),
	}
}

// withProcess starts a plugin, calls f with the plugin's process, and ends the plugin.
func (s *suite) withProcess(ctx context.Context, v *verdict, f func(p *process)) {
	p, err := s.begin(ctx)
	if err != nil {
		v.failf("%v", err)
		return
	}
	defer p.kill()
	f(p)
}

func kindOf(k toolpb.Kind) tool.Kind { return kinds[k] }

var kinds = map[toolpb.Kind]tool.Kind{
	toolpb.Kind_KIND_NOT_FOUND: tool.NotFound, toolpb.Kind_KIND_INVALID_ARGUMENTS: tool.InvalidArguments,
	toolpb.Kind_KIND_PERMISSION_DENIED: tool.PermissionDenied, toolpb.Kind_KIND_SECURITY: tool.Security,
	toolpb.Kind_KIND_TIMEOUT:  tool.Timeout,
	toolpb.Kind_KIND_CANCELED: tool.Canceled, toolpb.Kind_KIND_UNAVAILABLE: tool.Unavailable,
	toolpb.Kind_KIND_CONFLICT:         tool.Conflict,
	toolpb.Kind_KIND_EXECUTION_FAILED: tool.ExecutionFailed, toolpb.Kind_KIND_INTERNAL: tool.Internal,
}

// checkCalls makes each call once. The next two checks use the results of the calls.
func checkCalls(ctx context.Context, s *suite, v *verdict) {
	refused := make(map[string]string) // tools that refused generated arguments
	s.withProcess(ctx, v, func(p *process) {
		for _, c := range s.calls {
			if c.Long {
				continue
			}
			x := s.say(ctx, p, s.startOf(c), talk{})
			s.made = append(s.made, made{c, x})
			if err := x.failure(p); err != nil {
				v.failf("%s: %v", &c, err)
				if p.dead() {
					return
				}
				continue
			}
			failed, got := x.result.GetError() != nil, kindOf(x.kind())
			switch {
			case c.made && failed && got == tool.Internal:
				v.failf("%s: the arguments are valid, but the tool returns %s", &c, outcome(x.result))
			case c.made && failed && got == tool.InvalidArguments:
				refused[c.Tool] = outcome(x.result)
			case c.made:
			case c.Error != "" && (!failed || got != c.Error):
				v.failf("%s: the call must fail with %s, but returns %s", &c, c.Error, outcome(x.result))
			case c.Error == "" && failed:
				v.failf("%s: the call must succeed, but returns %s", &c, outcome(x.result))
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if !slices.ContainsFunc(s.made,
			func(m made) bool { return m.Tool == name && m.result.GetError() == nil && m.result != nil }) {
			s.leaveOut("the tool %s never succeeded: generated arguments lead to %s; add a call of it to the file of --calls", name, refused[name])
		}
	}
	if len(v.failed) == 0 && len(s.made) == 0 {
		v.skip("no call can be made")
	}
}

func outcome(r *toolpb.Result) string {
	if e := r.GetError(); e != nil {
		return fmt.Sprintf("the error %s: %s", kindOf(e.GetKind()), e.GetMessage())
	}
	return fmt.Sprintf("%.200q", r.GetOutput())
}

func checkMessages(_ context.Context, s *suite, v *verdict) {
	for _, m := range s.made {
		for _, rule := range m.rules {
			v.failf("%s: %s", &m.call, rule)
		}
	}
	if len(s.made) == 0 {
		v.skip("no call can be made")
	}
}

func checkResults(_ context.Context, s *suite, v *verdict) {
	for _, m := range s.made {
		if m.result == nil {
			continue
		}
		for _, problem := range append(resultProblems(m.definedAs, m.result), s.leaks(m)...) {
			v.failf("%s: %s", &m.call, problem)
		}
	}
	if len(s.made) == 0 {
		v.skip("no call can be made")
	}
}

// leaks reports the parts of a call's messages that contain a secret of the plugin.
func (s *suite) leaks(m made) (problems []string) {
	r := m.result
	parts := map[string]string{
		"the output": r.GetOutput(), "the title": r.GetTitle(), "the metadata": string(r.GetMetadata()), "the data": string(r.GetData()),
		"the error": r.GetError().GetMessage() + string(r.GetError().GetData()), "a Progress": strings.Join(m.shown, "\n"),
	}
	const least = 8 // shorter values occur by chance
	for _, name := range slices.Sorted(maps.Keys(s.secrets)) {
		value := s.secrets[name]
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			if len(value) >= least && strings.Contains(parts[part], value) {
				problems = append(problems, fmt.Sprintf("%s contains the secret %s, which models and logs then see", part, name))
			}
		}
	}
	return problems
}

func resultProblems(d *tool.Definition, r *toolpb.Result) (problems []string) {
	say := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	if e := r.GetError(); e != nil {
		if _, ok := kinds[e.GetKind()]; !ok {
			say("the error has no kind")
		}
		if e.GetMessage() == "" {
			say("the error has no message")
		}
	}
	if b := r.GetMetadata(); len(b) > 0 && json.Unmarshal(b, new(map[string]any)) != nil {
		say("the metadata is not a JSON object: %.100q", b)
	}
	if b := r.GetData(); len(b) > 0 {
		var data any
		if err := json.Unmarshal(b, &data); err != nil {
			say("the data is not JSON: %v", err)
		} else if schema, err := resolveSchema(d.Output); len(d.Output) > 0 && err == nil && r.GetError() == nil {
			if err := schema.Validate(data); err != nil {
				say("the data does not satisfy the output schema: %v", err)
			}
		}
	} else if len(d.Output) > 0 && r.GetError() == nil {
		say("the tool has an output schema, but the result has no data")
	}
	if r.SessionState != nil && d.Traits.ReadOnly {
		say("a read-only tool returns session state, which hosts ignore; do not declare the tool read_only, or return no state")
	}
	if n := len(r.GetSessionState()); n > toolrpc.MaxSessionState {
		say("the session state has %d bytes, and the limit is %d", n, toolrpc.MaxSessionState)
	}
	if c := r.GetCwd(); c != "" && !filepath.IsAbs(c) {
		say("the working directory %q is not absolute", c)
	}
	for _, e := range r.GetEffects() {
		f := e.GetFile()
		if !filepath.IsAbs(f.GetPath()) {
			say("an effect names the path %q, which is not absolute", f.GetPath())
		}
		if e.GetOperation() == toolpb.Effect_OPERATION_UNSPECIFIED {
			say("an effect has no operation")
		}
		if n := len(f.GetHash()); n != 32 && e.GetOperation() != toolpb.Effect_OPERATION_DELETE {
			say("an effect's hash is %d bytes; a SHA-256 has 32", n)
		}
	}
	for _, a := range r.GetAttachments() {
		if a.GetType() == toolpb.Attachment_TYPE_UNSPECIFIED {
			say("an attachment is neither a file nor an image")
		}
		if a.GetType() == toolpb.Attachment_TYPE_IMAGE && !strings.HasPrefix(a.GetMediaType(), "image/") {
			say("an image has the media type %q; name one such as image/png, because clients drop images without it", a.GetMediaType())
		}
	}
	return problems
}

func resolveSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

func checkExamples(ctx context.Context, s *suite, v *verdict) {
	if s.opts.Bind == nil {
		v.skip("examples are checked only by toolhost plugin test")
		return
	}
	seen := false
	s.withProcess(ctx, v, func(p *process) {
		for i := range s.desc.Tools {
			d := &s.desc.Tools[i]
			for _, e := range d.Examples {
				args, ok, err := s.opts.Bind(*d, e)
				if !ok {
					continue
				}
				seen = true
				if err != nil {
					v.failf("tool %s: the example %q is not a valid call of the tool: %v", d.Name, e, err)
					continue
				}
				raw, err := json.Marshal(args)
				if err != nil || !d.Traits.ReadOnly && !s.opts.AllTools {
					continue
				}
				x := s.say(ctx, p, s.startOf(call{Case: Case{Tool: d.Name, Arguments: raw}}), talk{})
				if err := x.failure(p); err != nil {
					v.failf("tool %s, example %q: %v", d.Name, e, err)
				} else if k := kindOf(x.kind()); k == tool.InvalidArguments || k == tool.Internal {
					v.failf("tool %s: the example %q fails with %s: %s", d.Name, e, k, x.result.GetError().GetMessage())
				}
				if p.dead() {
					return
				}
			}
		}
	})
	if !seen && len(v.failed) == 0 {
		v.skip("the tools have no examples")
	}
}

func checkBadArguments(ctx context.Context, s *suite, v *verdict) {
	looked := make(map[string]bool)
	for _, c := range s.calls {
		if !c.Repeat || c.Long || looked[c.Tool] {
			continue
		}
		looked[c.Tool] = true
		if s.fails(c.Tool) {
			continue
		}
		s.withProcess(ctx, v, func(p *process) {
			bad := worse(c.definedAs, c.Arguments)
			for _, what := range slices.Sorted(maps.Keys(bad)) {
				c := c
				c.Arguments = bad[what]
				x := s.say(ctx, p, s.startOf(c), talk{})
				if err := x.failure(p); err != nil {
					v.failf("tool %s, given %s: %v", c.Tool, what, err)
				} else if x.kind() == toolpb.Kind_KIND_INTERNAL {
					v.failf("tool %s, given %s: the call fails with internal instead of invalid_arguments: %s", c.Tool, what, x.result.GetError().GetMessage())
				}
				if p.dead() {
					return
				}
			}
		})
	}
	if len(looked) == 0 {
		v.skip("no tool is called")
	}
}

// fails reports whether valid calls of a tool have no result. For such a tool, invalid calls prove nothing.
func (s *suite) fails(name string) bool {
	return slices.ContainsFunc(s.made, func(m made) bool { return m.Tool == name && m.result == nil })
}

func checkUnknownTool(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		x := s.say(ctx, p, s.startOf(call{Case: Case{Tool: unknownTool, Arguments: json.RawMessage("{}")}}), talk{})
		if err := x.failure(p); err != nil {
			v.failf("%v", err)
		} else if x.kind() != toolpb.Kind_KIND_NOT_FOUND {
			v.failf("the call returns %s instead of an error of kind not_found", outcome(x.result))
		}
	})
}

// unknownField returns an encoded field that no message defines.
func unknownField() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 5000, protowire.BytesType), "from a later version")
}

func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(unknownField())
	return m
}

func checkUnknownFields(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		callCtx, cancel := context.WithTimeout(ctx, s.patience())
		defer cancel()
		_, err := p.rpc.Describe(callCtx, newer(&toolpb.DescribeRequest{
			HostVersion: hostVersion, Capabilities: []string{"conformance.unknown"},
		}))
		if err := s.rpcError("Describe with an unknown field and an unknown capability", err, p); err != nil {
			v.failf("%v", err)
		}
		_, err = p.rpc.Health(callCtx, newer(&toolpb.HealthRequest{}))
		_, plainErr := p.rpc.Health(callCtx, &toolpb.HealthRequest{})
		if err := s.rpcError("Health with an unknown field", err, p); err != nil && plainErr == nil {
			v.failf("%v", err)
		}
		c := s.probe()
		plain := s.say(ctx, p, s.startOf(c), talk{})
		x := s.say(ctx, p, newer(s.startOf(c)), talk{extra: newer(&toolpb.CallRequest{})})
		if err := x.failure(p); err != nil {
			v.failf("a call with an unknown field in Start, and an unknown message after it: %v", err)
		} else if plain.result != nil && x.kind() != plain.kind() {
			v.failf("a call with an unknown field in Start returns %s, and without it %s", outcome(x.result), outcome(plain.result))
		}
	})
}

// largeMessage is the size of the payload in checkLarge, in bytes.
const largeMessage = 16 << 20

func checkLarge(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		start := s.startOf(s.probe())
		start.Trace = map[string]string{"tracestate": strings.Repeat("x", largeMessage)}
		if err := s.say(ctx, p, start, talk{large: true}).failure(p); err != nil {
			v.failf("a call in a message of 16 MiB: %v", err)
		}
	})
}

// responsive checks that the plugin answers Health while calls run. If a plugin does not answer, hosts assume that it
// hangs. Such a plugin also does not receive cancels for its tools.
func (s *suite) responsive(ctx context.Context, v *verdict, p *process, when string) {
	time.Sleep(100 * time.Millisecond) // until the calls run
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	if _, err := p.rpc.Health(ctx, &toolpb.HealthRequest{}); err != nil && ctx.Err() != nil {
		v.failf("Health is not answered within %s %s: a tool blocks the event loop or holds a lock; let it wait or compute elsewhere, in a thread or asynchronously", healthLimit, when)
	}
}

// healthLimit is the time within which Health must be answered while calls run.
const healthLimit = 4 * time.Second

// together is the number of concurrent calls that checkConcurrent makes.
const together = 50

func checkConcurrent(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		c := s.probe()
		var wg sync.WaitGroup
		all := make([]*spoken, together)
		for i := range all {
			wg.Go(func() {
				start := s.startOf(c)
				start.CallId, start.SessionId = fmt.Sprintf("call-%d", i), fmt.Sprintf("session-%d", i)
				all[i] = s.say(ctx, p, start, talk{})
			})
		}
		s.responsive(ctx, v, p, fmt.Sprintf("while %d of %s run", together, &c))
		wg.Wait()
		alone := s.say(ctx, p, s.startOf(c), talk{})
		for _, x := range all {
			if err := x.failure(p); err != nil {
				v.failf("%s: %v", &c, err)
			} else if alone.result != nil && x.kind() != alone.kind() {
				v.failf("%s: the call returns %s concurrently with others, and %s alone", &c, outcome(x.result), outcome(alone.result))
			}
		}
		// Check that a long call does not delay other calls.
		long, ok := s.long()
		if !ok || len(v.failed) > 0 {
			return
		}
		longCtx, stop := context.WithCancel(ctx)
		defer wg.Wait()
		defer stop()
		for range 20 {
			wg.Go(func() { s.say(longCtx, p, s.startOf(long), talk{}) })
		}
		s.responsive(ctx, v, p, fmt.Sprintf("while %s runs", &long))
		if err := s.say(ctx, p, s.startOf(c), talk{}).failure(p); err != nil {
			v.failf("%s beside 20 of %s: %v", &c, &long, err)
		}
	})
}
