package toolrpc

import (
	"errors"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

func hookInputToPB(in *tool.HookInput) *toolpb.HookRequest {
	out := &toolpb.HookRequest{
		Event: string(in.Event), Hook: valid(in.Hook), Tool: in.Tool,
		CallId: in.CallID, MessageId: valid(in.MessageID), SessionId: valid(in.SessionID), Cwd: valid(in.Cwd),
		Workspace: valid(in.Workspace), Arguments: in.Arguments,
	}
	if in.Definition != nil {
		out.Definition = definitionToPB(*in.Definition)
	}
	if in.Result != nil {
		out.Result = resultToPB(shown(in.Result))
	}
	return out
}

func hookInputFromPB(r *toolpb.HookRequest) *tool.HookInput {
	out := &tool.HookInput{
		Event: tool.HookEvent(r.GetEvent()), Hook: r.GetHook(), Tool: r.GetTool(),
		CallID: r.GetCallId(), MessageID: r.GetMessageId(), SessionID: r.GetSessionId(), Cwd: r.GetCwd(),
		Workspace: r.GetWorkspace(), Arguments: r.GetArguments(),
	}
	if d := r.GetDefinition(); d != nil {
		def := definitionFromPB(d)
		out.Definition = &def
	}
	if r.GetResult() != nil {
		out.Result = resultFromPB(r.GetResult())
	}
	return out
}

// shown returns a copy of a result without the fields that only the host is allowed to read.
func shown(r *tool.Result) *tool.Result {
	return &tool.Result{
		Output: r.Output, Error: r.Error, Title: r.Title, Metadata: r.Metadata, Data: r.Data,
		Attachments: r.Attachments,
	}
}

func hookAnswerToPB(a *tool.HookAnswer) *toolpb.HookResponse {
	if a == nil {
		return new(toolpb.HookResponse)
	}
	out := &toolpb.HookResponse{Reason: valid(a.Reason), Arguments: a.Arguments}
	switch a.Decision {
	case tool.HookProceed:
	case tool.HookAsk:
		out.Decision = toolpb.HookResponse_DECISION_ASK
	default: // refuse the call if the decision is unknown
		out.Decision = toolpb.HookResponse_DECISION_DENY
	}
	if a.Result != nil {
		out.Result = resultToPB(shown(a.Result))
	}
	return out
}

func hookAnswerFromPB(r *toolpb.HookResponse) (*tool.HookAnswer, error) {
	out := &tool.HookAnswer{Reason: r.GetReason(), Arguments: r.GetArguments()}
	switch r.GetDecision() {
	case toolpb.HookResponse_DECISION_UNSPECIFIED:
	case toolpb.HookResponse_DECISION_DENY:
		out.Decision = tool.HookDeny
	case toolpb.HookResponse_DECISION_ASK:
		out.Decision = tool.HookAsk
	default:
		return nil, errors.New("the plugin's answer to a hook has an unknown type")
	}
	if r.GetResult() != nil {
		out.Result = shown(resultFromPB(r.GetResult()))
	}
	return out, nil
}
