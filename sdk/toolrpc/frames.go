package toolrpc

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// EncodeResult returns a result as the protocol sends it. It does not contain [tool.Result.Run].
func EncodeResult(r *tool.Result) ([]byte, error) { return proto.Marshal(resultToPB(r)) }

// DecodeResult returns a result that [EncodeResult] encoded.
func DecodeResult(b []byte) (*tool.Result, error) {
	var out toolpb.Result
	if err := proto.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("the result cannot be read: %w", err)
	}
	return resultFromPB(&out), nil
}

// EncodeDescription returns a description as the protocol sends it.
func EncodeDescription(d *tool.Description) ([]byte, error) {
	return proto.Marshal(descriptionToPB(d))
}

// DecodeDescription returns a description that [EncodeDescription] encoded. Decoding a description from JSON takes ten
// times as long.
func DecodeDescription(b []byte) (*tool.Description, error) {
	var out toolpb.DescribeResponse
	if err := proto.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("the description cannot be read: %w", err)
	}
	return descriptionFromPB(&out), nil
}

// EncodeAsk returns an ask as the protocol sends it.
func EncodeAsk(a tool.Ask) ([]byte, error) {
	m, err := askToPB(0, a)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// DecodeAsk returns an ask that [EncodeAsk] encoded.
func DecodeAsk(b []byte) (tool.Ask, error) {
	var out toolpb.Ask
	if err := proto.Unmarshal(b, &out); err != nil {
		return tool.Ask{}, fmt.Errorf("the ask cannot be read: %w", err)
	}
	return askFromPB(&out), nil
}

// EncodeAnswer returns an answer as the protocol sends it. It does not contain [tool.Answer.By].
func EncodeAnswer(a tool.Answer) ([]byte, error) { return proto.Marshal(answerToPB(0, a)) }

// DecodeAnswer returns an answer that [EncodeAnswer] encoded.
func DecodeAnswer(b []byte) (tool.Answer, error) {
	var out toolpb.Answer
	if err := proto.Unmarshal(b, &out); err != nil {
		return tool.Answer{}, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return answerFromPB(&out), nil
}
