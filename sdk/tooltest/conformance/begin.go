package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// firstStart starts the plugin once. Several checks of the plugin's start use the result.
func (s *suite) firstStart(ctx context.Context) *shaken {
	if s.first == nil {
		s.first = &shaken{}
		p, err := s.launch(ctx, true)
		if err != nil {
			s.first.why = err.Error()
			return s.first
		}
		defer p.kill()
		*s.first = p.shaken
		if p.shaken.line != "" {
			if _, err := p.address(); err != nil {
				s.first.why = err.Error()
			}
		}
	}
	return s.first
}

func checkHandshake(ctx context.Context, s *suite, v *verdict) {
	sh := s.firstStart(ctx)
	if sh.line == "" {
		v.failf("%s", sh.why)
		return
	}
	parts := strings.Split(sh.line, "|")
	for i, want := range map[int]string{0: "1", 1: "2", 4: "grpc"} {
		if parts[i] != want {
			v.failf("field %d of the handshake line %q is %q instead of %q", i+1, sh.line, parts[i], want)
		}
	}
}

func checkStdout(ctx context.Context, s *suite, v *verdict) {
	sh := s.firstStart(ctx)
	for _, line := range sh.before {
		v.failf("the plugin printed %.200q before the handshake line", line)
	}
	if sh.more > 0 {
		v.failf("the plugin printed %d more lines", sh.more)
	}
}

func checkSocket(ctx context.Context, s *suite, v *verdict) {
	sh := s.firstStart(ctx)
	switch {
	case sh.line == "":
		v.skip("no handshake line")
	case sh.why != "":
		v.failf("%s", sh.why)
	}
}

func checkByHand(ctx context.Context, s *suite, v *verdict) {
	p, err := s.launch(ctx, false)
	if err != nil {
		v.failf("%v", err)
		return
	}
	defer p.kill()
	switch {
	case p.shaken.line != "":
		v.warnf("the plugin printed a handshake line although the variable %s is not set", toolrpc.Handshake.MagicCookieKey)
	case !p.dying():
		v.warnf("the plugin does not exit although the variable %s is not set", toolrpc.Handshake.MagicCookieKey)
	case len(p.shaken.before) == 0 && p.said() == "":
		v.warnf("the plugin exits without a message if the variable %s is not set", toolrpc.Handshake.MagicCookieKey)
	}
}

// open starts the plugin and connects to it.
func (s *suite) open(ctx context.Context) (*process, error) {
	p, err := s.launch(ctx, true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.opts.Patience, startTimeout))
	defer cancel()
	if p.shaken.line == "" {
		err = fmt.Errorf("the plugin does not start: %s", p.shaken.why)
	} else {
		err = p.connect(ctx)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (s *suite) describe(ctx context.Context, p *process) (*toolpb.DescribeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.opts.Patience, startTimeout))
	defer cancel()
	r, err := p.rpc.Describe(ctx, &toolpb.DescribeRequest{HostVersion: hostVersion})
	return r, s.rpcError("Describe", err, p)
}

// rpcError returns the error of a failed RPC with a description. If err is nil, it returns nil.
func (s *suite) rpcError(what string, err error, p *process) error {
	switch {
	case err == nil:
		return nil
	case p.dying():
		return fmt.Errorf("the plugin ended during %s: %s", what, p.ended())
	}
	return fmt.Errorf("%s fails with the status %s: %s", what, status.Code(err), status.Convert(err).Message())
}

// configure sends a configuration to the plugin. If config is nil, it sends the configuration in the author's cases.
func (s *suite) configure(ctx context.Context, p *process, config json.RawMessage,
	stateDir string) (*toolpb.ConfigureResponse, error) {
	if config == nil {
		config = s.opts.Cases.Config
	}
	if config == nil {
		config = json.RawMessage("{}")
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	r, err := p.rpc.Configure(ctx, &toolpb.ConfigureRequest{
		Config: config, Roots: s.roots(), StateDir: stateDir, HostVersion: hostVersion,
	})
	return r, s.rpcError("Configure", err, p)
}

func (s *suite) roots() []*toolpb.Root { return []*toolpb.Root{{Path: s.workspace(), Writable: true}} }

// refusals returns the summaries of the diagnostics that are errors.
func refusals(r *toolpb.ConfigureResponse) []string {
	var out []string
	for _, d := range r.GetDiagnostics() {
		if d.GetSeverity() == toolpb.Diagnostic_SEVERITY_ERROR {
			text := d.GetSummary()
			if len(d.GetPath()) > 0 {
				text = strings.Join(d.GetPath(), ".") + ": " + text
			}
			out = append(out, text)
		}
	}
	return out
}

// begin starts a plugin and configures it. After begin, the plugin accepts calls.
func (s *suite) begin(ctx context.Context) (*process, error) {
	dir, err := s.stateDir()
	if err != nil {
		return nil, err
	}
	return s.beginIn(ctx, dir)
}

func (s *suite) beginIn(ctx context.Context, stateDir string) (*process, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*process, error) {
		p.kill()
		return nil, err
	}
	if _, err := s.describe(ctx, p); err != nil {
		return fail(err)
	}
	r, err := s.configure(ctx, p, nil, stateDir)
	if err != nil {
		return fail(err)
	}
	if bad := refusals(r); len(bad) > 0 {
		return fail(fmt.Errorf("the plugin rejects its configuration: %s", strings.Join(bad, "; ")))
	}
	if s.desc != nil && slices.Contains(s.desc.Capabilities, tool.CapabilityDiscovery) {
		if _, err := s.describe(ctx, p); err != nil {
			return fail(err)
		}
	}
	_ = os.RemoveAll(p.sockets) // ignore the error: a host also removes the directory after it has connected
	return p, nil
}

func checkDescribe(ctx context.Context, s *suite, v *verdict) {
	if s.firstStart(ctx).why != "" {
		v.skip("the plugin does not start")
		return
	}
	var answers []*toolpb.DescribeResponse
	for range 2 {
		p, err := s.open(ctx)
		if err != nil {
			v.failf("%v", err)
			return
		}
		for range 2 {
			r, err := s.describe(ctx, p)
			if err != nil {
				p.kill()
				v.failf("%v", err)
				return
			}
			answers = append(answers, r)
		}
		s.desc, err = toolrpc.NewClient(p.conn).Describe(ctx)
		p.kill()
		if err != nil {
			v.failf("%v", err)
			return
		}
	}
	for i, where := range []string{"", "in the same process", "in another process", "in another process"} {
		if !proto.Equal(answers[0], answers[i]) {
			v.failf("a second Describe %s returns another description", where)
			return
		}
	}
}

func checkConfigure(ctx context.Context, s *suite, v *verdict) {
	if s.desc == nil {
		v.skip("Describe fails")
		return
	}
	s.learnSecrets()
	if !s.completeConfig(v) {
		return
	}
	p, err := s.begin(ctx)
	if err != nil {
		v.failf("%v", err)
		if strings.Contains(err.Error(), "rejects") {
			v.failf("the configuration was %s; if the plugin needs another one, change the case {\"config\": …} in the file of --calls", s.opts.Cases.Config)
		}
		return
	}
	defer p.kill()
	if slices.Contains(s.desc.Capabilities, tool.CapabilityDiscovery) {
		if s.desc, err = toolrpc.NewClient(p.conn).Describe(ctx); err != nil {
			v.failf("Describe fails after Configure: %v", err)
			return
		}
	}
	if err := s.plan(); err != nil {
		v.failf("%v", err)
		return
	}
	s.ready = true
}

// completeConfig checks the configuration against the plugin's schema and fills in the defaults, as a host does. It
// reports whether the plugin can be configured.
func (s *suite) completeConfig(v *verdict) bool {
	if s.opts.Cases.Config == nil {
		s.opts.Cases.Config = json.RawMessage("{}")
	}
	schema, err := tool.ParseSchema(s.desc.ConfigSchema)
	var values map[string]json.RawMessage
	if err != nil || json.Unmarshal(s.opts.Cases.Config, &values) != nil {
		return true // checkDefinitions reports a wrong schema, and the plugin reports a wrong configuration
	}
	filled, bad := schema.Check(values)
	var missing []string
	for _, b := range bad {
		if b.Kind == tool.Missing {
			missing = append(missing, fmt.Sprintf("%q: …", b.Param))
			continue
		}
		v.failf("the case {\"config\": …} does not satisfy the plugin's own schema: %s", strings.ReplaceAll(b.Message, "parameter", "attribute"))
	}
	if missing != nil {
		v.failf("the plugin requires a configuration, and the calls have none; add this line to the file of --calls: {\"config\": {%s}}", strings.Join(missing, ", "))
	}
	if len(bad) > 0 {
		return false
	}
	if b, err := json.Marshal(filled); err == nil {
		s.opts.Cases.Config = b
	}
	return true
}

func checkDefinitions(_ context.Context, s *suite, v *verdict) {
	if s.desc == nil {
		v.skip("Describe fails")
		return
	}
	d := s.desc
	if !tool.ValidName(d.Name) {
		v.failf("invalid plugin name %q: use lower-case letters, digits, '_', '-' and '.', beginning with a letter", d.Name)
	}
	if !semver.IsValid("v"+d.Version) || strings.Count(d.Version, ".") < 2 {
		v.failf("the plugin's version %q is not major.minor.patch", d.Version)
	}
	if m := d.MinHostVersion; m != "" && !semver.IsValid("v"+m) {
		v.failf("min_host_version %q is not major.minor.patch", m)
	}
	if len(d.ConfigSchema) > 0 {
		if _, err := tool.ParseSchema(d.ConfigSchema); err != nil {
			v.failf("the schema of the configuration is not valid: %v", err)
		}
	}
	if len(d.Tools) == 0 && (s.ready || !slices.Contains(d.Capabilities, tool.CapabilityDiscovery)) {
		v.failf("the plugin has no tools")
	}
	for _, problem := range d.CheckClaims() {
		v.failf("%v", problem)
	}
	seen := make(map[string]bool)
	for _, t := range d.Tools {
		if err := t.Validate(); err != nil {
			for line := range strings.Lines(err.Error()) {
				v.failf("tool %q: %s", t.Name, strings.TrimSpace(line))
			}
		}
		if seen[t.Name] {
			v.failf("two tools have the name %q", t.Name)
		}
		seen[t.Name] = true
		if len(t.Output) > 0 {
			if _, err := resolveSchema(t.Output); err != nil {
				v.failf("tool %q: the output schema is not valid: %v", t.Name, err)
			}
		}
	}
}

func checkBadConfig(ctx context.Context, s *suite, v *verdict) {
	type bad struct {
		config  json.RawMessage
		refused bool // true if the plugin must refuse the configuration
	}
	var all []bad
	for _, c := range s.opts.Cases.BadConfigs {
		all = append(all, bad{c, true})
	}
	all = append(all, bad{config: json.RawMessage(`{"a":`)}, bad{config: json.RawMessage(`[]`)})
	if schema, err := tool.ParseSchema(s.desc.ConfigSchema); err == nil {
		for _, p := range schema.Params() {
			wrong := `{"of":["another","type"]}`
			if p.Is("object") {
				wrong = `17`
			}
			name, _ := json.Marshal(p.Name)
			all = append(all, bad{config: json.RawMessage(fmt.Sprintf(`{%s:%s}`, name, wrong))})
		}
	}
	for _, b := range all {
		s.badConfig(ctx, v, b.config, b.refused)
	}
}

func (s *suite) badConfig(ctx context.Context, v *verdict, config json.RawMessage, refused bool) {
	p, err := s.open(ctx)
	if err == nil {
		defer p.kill()
		_, err = s.describe(ctx, p)
	}
	dir, dirErr := s.stateDir()
	if err == nil {
		err = dirErr
	}
	if err != nil {
		v.failf("%v", err)
		return
	}
	r, err := s.configure(ctx, p, config, dir)
	if err != nil {
		v.failf("Configure with %.100s: %v", config, err)
		return
	}
	if refused && len(refusals(r)) == 0 {
		v.failf("Configure with %.200s returns no diagnostic of severity error", config)
	}
	for _, d := range r.GetDiagnostics() {
		if strings.TrimSpace(d.GetSummary()) == "" {
			v.failf("Configure with %.100s returns a diagnostic without a summary", config)
		}
	}
}

func checkHealth(ctx context.Context, s *suite, v *verdict) {
	p, err := s.begin(ctx)
	if err != nil {
		v.failf("%v", err)
		return
	}
	defer p.kill()
	names := []string{"", unknownTool}
	for _, d := range s.desc.Tools {
		names = append(names, d.Name)
	}
	for _, name := range names {
		what := "the tool " + name
		if name == "" {
			what = "the plugin"
		}
		callCtx, cancel := context.WithTimeout(ctx, s.patience())
		r, err := p.rpc.Health(callCtx, &toolpb.HealthRequest{Tool: name})
		cancel()
		if err := s.rpcError("Health", err, p); err != nil {
			v.failf("Health of %s: %v", what, err)
			return
		}
		st := r.GetStatus()
		switch {
		case name == unknownTool && st != toolpb.HealthResponse_STATUS_NOT_FOUND:
			v.failf("Health of an unknown tool is %s, not STATUS_NOT_FOUND", st)
		case name == unknownTool:
		case st == toolpb.HealthResponse_STATUS_UNHEALTHY:
			v.warnf("%s is unhealthy: %s", what, r.GetMessage())
		case st != toolpb.HealthResponse_STATUS_HEALTHY:
			v.failf("%s is %s", what, st)
		}
		if b := r.GetDetails(); len(b) > 0 && json.Unmarshal(b, new(map[string]any)) != nil {
			v.failf("the health details of %s are not a JSON object: %.100q", what, b)
		}
	}
}
