package toolrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// pairs converts between Go values and the values of a protobuf enum.
type pairs[G comparable, P comparable] struct {
	toPB map[G]P
	toGo map[P]G
}

func newPairs[G comparable, P comparable](m map[G]P) pairs[G, P] {
	p := pairs[G, P]{toPB: m, toGo: make(map[P]G, len(m))}
	for g, v := range m {
		p.toGo[v] = g
	}
	return p
}

var (
	kinds = newPairs(map[tool.Kind]toolpb.Kind{
		tool.NotFound: toolpb.Kind_KIND_NOT_FOUND, tool.InvalidArguments: toolpb.Kind_KIND_INVALID_ARGUMENTS,
		tool.PermissionDenied: toolpb.Kind_KIND_PERMISSION_DENIED, tool.Security: toolpb.Kind_KIND_SECURITY,
		tool.Timeout: toolpb.Kind_KIND_TIMEOUT, tool.Canceled: toolpb.Kind_KIND_CANCELED,
		tool.Unavailable: toolpb.Kind_KIND_UNAVAILABLE, tool.Conflict: toolpb.Kind_KIND_CONFLICT,
		tool.ExecutionFailed: toolpb.Kind_KIND_EXECUTION_FAILED, tool.Internal: toolpb.Kind_KIND_INTERNAL,
	})
	operations = newPairs(map[tool.Operation]toolpb.Effect_Operation{
		tool.OpRead: toolpb.Effect_OPERATION_READ, tool.OpCreate: toolpb.Effect_OPERATION_CREATE,
		tool.OpModify: toolpb.Effect_OPERATION_MODIFY, tool.OpDelete: toolpb.Effect_OPERATION_DELETE,
	})
	outcomes = newPairs(map[tool.Outcome]toolpb.Answer_Outcome{
		tool.Accepted: toolpb.Answer_OUTCOME_ACCEPTED, tool.Declined: toolpb.Answer_OUTCOME_DECLINED,
		tool.NobodyToAsk: toolpb.Answer_OUTCOME_UNAVAILABLE, tool.AnswerTimeout: toolpb.Answer_OUTCOME_TIMEOUT,
	})
	healths = newPairs(map[tool.HealthStatus]toolpb.HealthResponse_Status{
		tool.Healthy: toolpb.HealthResponse_STATUS_HEALTHY, tool.Unhealthy: toolpb.HealthResponse_STATUS_UNHEALTHY,
		tool.HealthNotFound: toolpb.HealthResponse_STATUS_NOT_FOUND,
	})
	needs = newPairs(map[tool.Need]toolpb.Need{
		tool.NotNeeded: toolpb.Need_NEED_UNSPECIFIED, tool.Optional: toolpb.Need_NEED_OPTIONAL,
		tool.Required: toolpb.Need_NEED_REQUIRED,
	})
	attachments = newPairs(map[string]toolpb.Attachment_Type{
		"file": toolpb.Attachment_TYPE_FILE, "image": toolpb.Attachment_TYPE_IMAGE,
	})
)

func mapSlice[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// valid replaces invalid UTF-8, because a protobuf string cannot contain it.
func valid(s string) string {
	if utf8.ValidString(s) { // checking is much faster than replacing
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func jsonObject(m map[string]any) []byte {
	if len(m) == 0 {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		b, _ = json.Marshal(map[string]any{"metadata_error": err.Error()})
	}
	return b
}

func fromJSONObject(b []byte) map[string]any {
	if len(b) == 0 {
		return nil
	}
	if len(b) > maxMetadata {
		return map[string]any{"metadata_error": fmt.Sprintf("the metadata has %d bytes, and the limit is %d", len(b), maxMetadata)}
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return map[string]any{"metadata_error": err.Error()}
	}
	return m
}

// Limits for parts of the plugin's messages, in bytes. Such a part needs many times its size in the host.
const (
	maxMetadata = 1 << 20   // of a result, of progress or of a permission
	maxNote     = 16 << 10  // of the title of progress, or of a log message
	maxQuestion = 256 << 10 // of a permission or a question
)

// short returns at most maxNote bytes of a text.
func short(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "…"
}

func descriptionToPB(d *tool.Description) *toolpb.DescribeResponse {
	return &toolpb.DescribeResponse{
		Name: valid(d.Name), Version: valid(d.Version), MinHostVersion: valid(d.MinHostVersion),
		ConfigSchema: d.ConfigSchema,
		Tools:        mapSlice(d.Tools, definitionToPB), Capabilities: mapSlice(d.Capabilities, valid),
		Needs: needsToPB(d.Needs),
		Items: mapSlice(d.Items, itemToPB),
		Keeps: mapSlice(d.Keeps, func(k tool.Kept) *toolpb.Kept {
			return &toolpb.Kept{Kind: valid(k.Kind), Files: mapSlice(k.Files, valid), AgeAttribute: valid(k.Age)}
		}),
	}
}

func descriptionFromPB(d *toolpb.DescribeResponse) *tool.Description {
	return &tool.Description{
		Name: d.GetName(), Version: d.GetVersion(), MinHostVersion: d.GetMinHostVersion(),
		ConfigSchema: d.GetConfigSchema(),
		Tools:        mapSlice(d.GetTools(), definitionFromPB), Capabilities: d.GetCapabilities(),
		Needs: needsFromPB(d.GetNeeds()),
		Items: itemsFromPB(d.GetItems()),
		Keeps: mapSlice(d.GetKeeps(), func(k *toolpb.Kept) tool.Kept {
			return tool.Kept{Kind: k.GetKind(), Files: k.GetFiles(), Age: k.GetAgeAttribute()}
		}),
	}
}

func needsToPB(n *tool.Needs) *toolpb.Needs {
	if n == nil {
		return nil
	}
	return &toolpb.Needs{
		Read: needs.toPB[n.Read], Write: needs.toPB[n.Write], Exec: needs.toPB[n.Exec], Network: needs.toPB[n.Network],
		Secrets: mapSlice(n.Secrets, func(s tool.Secret) *toolpb.Secret {
			return &toolpb.Secret{Name: valid(s.Name), Need: needs.toPB[s.Need]}
		}),
	}
}

func needsFromPB(n *toolpb.Needs) *tool.Needs {
	if n == nil {
		return nil
	}
	return &tool.Needs{
		Read: needFromPB(n.GetRead()), Write: needFromPB(n.GetWrite()), Exec: needFromPB(n.GetExec()),
		Network: needFromPB(n.GetNetwork()),
		Secrets: mapSlice(n.GetSecrets(), func(s *toolpb.Secret) tool.Secret {
			return tool.Secret{Name: s.GetName(), Need: needFromPB(s.GetNeed())}
		}),
	}
}

// needFromPB converts a need. It returns Optional for an unknown value.
func needFromPB(n toolpb.Need) tool.Need {
	if known, ok := needs.toGo[n]; ok {
		return known
	}
	return tool.Optional
}

func definitionToPB(d tool.Definition) *toolpb.Tool {
	return &toolpb.Tool{
		Name: valid(d.Name), Description: valid(d.Description), InputSchema: d.Input, OutputSchema: d.Output,
		Traits: &toolpb.Traits{
			ReadOnly: d.Traits.ReadOnly, ConcurrencySafe: d.Traits.ConcurrencySafe, Dangerous: d.Traits.Dangerous,
			AutoExecute: d.Traits.AutoExecute, Disabled: d.Traits.Disabled, Idempotent: d.Traits.Idempotent,
			Cacheable: d.Traits.Cacheable,
		},
		Category: valid(string(d.Category)), Version: valid(d.Version), Examples: mapSlice(d.Examples, valid),
		StdinParameter: valid(d.StdinParameter), DefaultTimeoutMs: milliseconds(d.DefaultTimeout),
		Title: valid(d.Title), Icons: d.Icons, Deprecated: valid(d.Deprecated), OriginalName: valid(d.OriginalName),
		Varying: mapSlice(d.Varying, valid), Unordered: mapSlice(d.Unordered, valid),
		Keywords: mapSlice(d.Keywords, valid), Role: valid(string(d.Role)), Program: programToPB(d.Program),
	}
}

func definitionFromPB(d *toolpb.Tool) tool.Definition {
	t := d.GetTraits()
	return tool.Definition{
		Name: d.GetName(), Description: d.GetDescription(), Input: d.GetInputSchema(), Output: d.GetOutputSchema(),
		Traits: tool.Traits{
			ReadOnly: t.GetReadOnly(), ConcurrencySafe: t.GetConcurrencySafe(), Dangerous: t.GetDangerous(),
			AutoExecute: t.GetAutoExecute(), Disabled: t.GetDisabled(), Idempotent: t.GetIdempotent(),
			Cacheable: t.GetCacheable(),
		},
		Category: tool.Category(d.GetCategory()), Version: d.GetVersion(), Examples: d.GetExamples(),
		StdinParameter: d.GetStdinParameter(),
		DefaultTimeout: time.Duration(d.GetDefaultTimeoutMs()) * time.Millisecond,
		Title:          d.GetTitle(), Icons: validJSON(d.GetIcons()), Deprecated: d.GetDeprecated(),
		OriginalName: d.GetOriginalName(),
		Varying:      d.GetVarying(), Unordered: d.GetUnordered(),
		Keywords: d.GetKeywords(), Role: tool.Role(d.GetRole()), Program: programFromPB(d.GetProgram()),
	}
}

func programToPB(p *tool.Program) *toolpb.Program {
	if p == nil {
		return nil
	}
	out := &toolpb.Program{Operands: int32(p.Operands), First: valid(p.First), Number: valid(p.Number),
		Otherwise: valid(p.Otherwise), Special: valid(p.Special),
		Others: mapSlice(p.Others, valid), Operand: valid(string(p.Operand)),
		Options: make(map[string]*toolpb.ProgramOption, len(p.Options))}
	for name, o := range p.Options {
		out.Options[valid(name)] = &toolpb.ProgramOption{
			Argument: valid(o.Argument), Value: o.Value, Suffix: valid(o.Suffix), Optional: o.Optional,
		}
	}
	return out
}

func programFromPB(p *toolpb.Program) *tool.Program {
	if p == nil {
		return nil
	}
	out := &tool.Program{Operands: int(p.GetOperands()), First: p.GetFirst(), Number: p.GetNumber(),
		Otherwise: p.GetOtherwise(), Special: p.GetSpecial(),
		Others: p.GetOthers(), Operand: tool.Operand(p.GetOperand()),
		Options: make(map[string]tool.ProgramOption, len(p.GetOptions()))}
	for name, o := range p.GetOptions() {
		out.Options[name] = tool.ProgramOption{
			Argument: o.GetArgument(), Value: o.GetValue(), Suffix: o.GetSuffix(), Optional: o.GetOptional(),
		}
	}
	return out
}

func rootToPB(r tool.Root) *toolpb.Root { return &toolpb.Root{Path: r.Path, Writable: r.Writable} }
func rootFromPB(r *toolpb.Root) tool.Root {
	return tool.Root{Path: r.GetPath(), Writable: r.GetWritable(), Reported: r.GetReported()}
}

// configuredRootToPB returns a root for Configure. A root in a branch is Reported, because the kernel does not report
// all changes in a branch to the plugin.
func configuredRootToPB(r tool.Root) *toolpb.Root {
	out := rootToPB(r)
	out.Reported = r.View != ""
	return out
}

// milliseconds converts a duration to milliseconds. A duration below one millisecond keeps its sign, because a
// negative timeout has a special meaning.
func milliseconds(d time.Duration) int64 {
	switch ms := d.Milliseconds(); {
	case ms != 0 || d == 0:
		return ms
	case d < 0:
		return -1
	}
	return 1
}

func startToPB(c *tool.Call, timeout time.Duration) *toolpb.Start {
	var commands *toolpb.Commands
	if c.Commands != nil {
		commands = &toolpb.Commands{
			Dir: valid(c.Commands.Dir), Address: valid(c.Commands.Address), Token: c.Commands.Token,
		}
	}
	return &toolpb.Start{
		Commands: commands, Client: clientToPB(c.Client), Method: valid(c.Method), Continuation: c.Continuation,
		CallId: c.ID, Tool: c.Tool, Arguments: c.Arguments, SessionId: valid(c.SessionID),
		MessageId: valid(c.MessageID),
		Cwd:       valid(c.Cwd), Roots: mapSlice(c.Roots, rootToPB), TimeoutMs: milliseconds(timeout),
		SessionState: c.SessionState, Trace: c.Trace,
	}
}

func callFromPB(s *toolpb.Start) *tool.Call {
	var commands *tool.Commands
	if c := s.GetCommands(); c != nil {
		commands = &tool.Commands{Dir: c.GetDir(), Address: c.GetAddress(), Token: c.GetToken()}
	}
	return &tool.Call{
		Commands: commands, Client: clientFromPB(s.GetClient()), Method: s.GetMethod(),
		Continuation: s.GetContinuation(),
		ID:           s.GetCallId(), Tool: s.GetTool(), Arguments: s.GetArguments(), SessionID: s.GetSessionId(),
		MessageID: s.GetMessageId(),
		Cwd:       s.GetCwd(), Roots: mapSlice(s.GetRoots(), rootFromPB), SessionState: s.GetSessionState(),
		Trace: s.GetTrace(),
	}
}

func fileStateToPB(f tool.FileState) *toolpb.FileState {
	return &toolpb.FileState{
		Path: valid(f.Path), MtimeNs: f.ModTime.UnixNano(), Size: f.Size, Hash: f.Hash[:], Partial: f.Partial,
	}
}

func fileStateFromPB(f *toolpb.FileState) tool.FileState {
	s := tool.FileState{
		Path: f.GetPath(), ModTime: time.Unix(0, f.GetMtimeNs()), Size: f.GetSize(), Partial: f.GetPartial(),
	}
	copy(s.Hash[:], f.GetHash())
	return s
}

func effectToPB(e tool.Effect) *toolpb.Effect {
	out := &toolpb.Effect{Operation: operations.toPB[e.Operation], File: fileStateToPB(e.File)}
	if e.HashBefore != nil {
		out.HashBefore = e.HashBefore[:]
	}
	return out
}

func effectFromPB(e *toolpb.Effect) tool.Effect {
	out := tool.Effect{Operation: operations.toGo[e.GetOperation()], File: fileStateFromPB(e.GetFile())}
	if h := e.GetHashBefore(); len(h) == 32 {
		out.HashBefore = (*[32]byte)(h)
	}
	return out
}

// maxRetryAfter limits the wait that a plugin can request before the host repeats a call.
const maxRetryAfter = 24 * time.Hour

func errorToPB(e *tool.Error) *toolpb.Error {
	if e == nil {
		return nil
	}
	kind, ok := kinds.toPB[e.Kind]
	if !ok {
		kind = toolpb.Kind_KIND_INTERNAL
	}
	return &toolpb.Error{Kind: kind, Code: int32(e.Code), Message: valid(e.Message),
		RetryAfterMs: e.RetryAfter.Milliseconds(), Data: e.Data}
}

func errorFromPB(e *toolpb.Error) *tool.Error {
	if e == nil {
		return nil
	}
	kind, ok := kinds.toGo[e.GetKind()]
	if !ok {
		kind = tool.Internal
	}
	return &tool.Error{
		Kind: kind, Code: int(e.GetCode()), Message: e.GetMessage(), Source: tool.SourceTool,
		Data:       validJSON(e.GetData()),
		RetryAfter: time.Duration(max(0, min(e.GetRetryAfterMs(), maxRetryAfter.Milliseconds()))) * time.Millisecond,
	}
}

func resultToPB(r *tool.Result) *toolpb.Result {
	return &toolpb.Result{
		Output: valid(r.Output), Error: errorToPB(r.Error), Title: valid(r.Title), Metadata: jsonObject(r.Metadata),
		Data: r.Data,
		Attachments: mapSlice(r.Attachments, func(a tool.Attachment) *toolpb.Attachment {
			return &toolpb.Attachment{
				Type: attachments.toPB[a.Type], Path: valid(a.Path), MediaType: valid(a.MediaType), Content: a.Content,
			}
		}),
		Effects: mapSlice(r.Effects, effectToPB), SessionState: r.SessionState, Cwd: valid(r.Cwd),
		Contents: mapSlice(r.Contents, contentToPB),
	}
}

func resultFromPB(r *toolpb.Result) *tool.Result {
	out := &tool.Result{
		Output: r.GetOutput(), Error: errorFromPB(r.GetError()), Title: r.GetTitle(),
		Metadata: fromJSONObject(r.GetMetadata()),
		Attachments: mapSlice(r.GetAttachments(), func(a *toolpb.Attachment) tool.Attachment {
			return tool.Attachment{Type: attachments.toGo[a.GetType()], Path: a.GetPath(), MediaType: a.GetMediaType(),
				Content: a.GetContent()}
		}),
		Effects: mapSlice(r.GetEffects(), effectFromPB), SessionState: r.SessionState, Cwd: r.GetCwd(),
		Contents: mapSlice(r.GetContents(), contentFromPB),
	}
	if len(r.GetData()) > 0 {
		out.Data = r.GetData()
		if !rawjson.Valid(out.Data) {
			return tool.Failed(tool.Errorf(tool.Internal, "The plugin returned structured data that is not JSON. Report this to the plugin's author.").From(tool.SourcePlugin))
		}
	}
	if len(out.SessionState) > MaxSessionState {
		out.SessionState = nil
		return tool.Failed(tool.Errorf(tool.Internal, "The plugin returned %d bytes of session state; the limit is %d.", len(r.SessionState), MaxSessionState).From(tool.SourcePlugin))
	}
	return out
}

func askToPB(id uint32, a tool.Ask) (*toolpb.Ask, error) {
	switch {
	case a.Permission != nil:
		p := a.Permission
		return &toolpb.Ask{Id: id, Ask: &toolpb.Ask_Permission{Permission: &toolpb.Permission{
			Kind: valid(p.Kind), Title: valid(p.Title), Patterns: mapSlice(p.Patterns, valid),
			Metadata: jsonObject(p.Metadata),
		}}}, nil
	case a.Question != nil:
		q := a.Question
		return &toolpb.Ask{Id: id, Ask: &toolpb.Ask_Question{Question: &toolpb.Question{
			Text: valid(q.Text), Options: mapSlice(q.Options, valid), Multiple: q.Multiple, FreeText: q.FreeText,
			Defaults: mapSlice(q.Defaults, valid), Optional: q.Optional,
		}}}, nil
	}
	if len(a.Requests) > 0 {
		return &toolpb.Ask{Id: id,
			Ask: &toolpb.Ask_Requests{Requests: &toolpb.ClientRequests{Requests: mapSlice(a.Requests, requestToPB),
				Continuation: a.Continuation}}}, nil
	}
	if c := a.Call; c != nil {
		return &toolpb.Ask{Id: id,
			Ask: &toolpb.Ask_ToolCall{ToolCall: &toolpb.ToolCall{Tool: valid(c.Tool), Arguments: c.Arguments}}}, nil
	}
	return nil, fmt.Errorf("toolrpc: an ask must have a permission, a question, requests or a call")
}

func askFromPB(a *toolpb.Ask) tool.Ask {
	if p := a.GetPermission(); p != nil {
		return tool.Ask{Permission: &tool.Permission{
			Kind: p.GetKind(), Title: p.GetTitle(), Patterns: p.GetPatterns(),
			Metadata: fromJSONObject(p.GetMetadata()),
		}}
	}
	if r := a.GetRequests(); r != nil {
		return tool.Ask{Requests: mapSlice(r.GetRequests(), requestFromPB), Continuation: r.GetContinuation()}
	}
	if c := a.GetToolCall(); c != nil {
		return tool.Ask{Call: &tool.ToolCall{Tool: c.GetTool(), Arguments: c.GetArguments()}}
	}
	q := a.GetQuestion()
	return tool.Ask{Question: &tool.Question{
		Text: q.GetText(), Options: q.GetOptions(), Multiple: q.GetMultiple(), FreeText: q.GetFreeText(),
		Defaults: q.GetDefaults(), Optional: q.GetOptional(),
	}}
}

func answerToPB(id uint32, a tool.Answer) *toolpb.Answer {
	return &toolpb.Answer{AskId: id, Outcome: outcomes.toPB[a.Outcome], Values: mapSlice(a.Values, valid),
		Message: valid(a.Message), Content: a.Content}
}

func answerFromPB(a *toolpb.Answer) tool.Answer {
	out, ok := outcomes.toGo[a.GetOutcome()]
	if !ok {
		out = tool.Declined
	}
	return tool.Answer{Outcome: out, Values: a.GetValues(), Message: a.GetMessage(), Content: validJSON(a.GetContent())}
}

func diagnosticToPB(d tool.Diagnostic) *toolpb.Diagnostic {
	sev := toolpb.Diagnostic_SEVERITY_ERROR
	if d.Severity == tool.SeverityWarning {
		sev = toolpb.Diagnostic_SEVERITY_WARNING
	}
	return &toolpb.Diagnostic{
		Severity: sev, Summary: valid(d.Summary), Detail: valid(d.Detail), Path: mapSlice(d.Path, valid),
	}
}

func diagnosticFromPB(d *toolpb.Diagnostic) tool.Diagnostic {
	sev := tool.SeverityError
	if d.GetSeverity() == toolpb.Diagnostic_SEVERITY_WARNING {
		sev = tool.SeverityWarning
	}
	return tool.Diagnostic{Severity: sev, Summary: d.GetSummary(), Detail: d.GetDetail(), Path: d.GetPath()}
}

// compact removes white space from JSON, so that differently formatted schemas can be compared. If raw is not JSON,
// compact returns it unchanged.
func compact(raw []byte) []byte {
	var out bytes.Buffer
	if len(raw) == 0 || json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
