// Package question implements the tool ask_user, with which a model asks the user questions. The tool never answers in
// place of the user.
package question

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// The following constants limit questions and their options.
const (
	maxText      = 4000 // maximum length of a question in characters
	maxOptions   = 20
	maxQuestions = 10
	maxOption    = 500 // maximum length of an option in characters
	maxTimeout   = 24 * time.Hour
	defaultTime  = 10 * time.Minute
	tries        = 3
)

// The outcomes of a question in the structured data.
const (
	answered    = "answered"
	declined    = "declined"
	timedOut    = "timeout"
	unavailable = "unavailable"
)

type args struct {
	Question string   `json:"question,omitempty" jsonschema:"The question, with the facts that it needs."`
	Options  []string `json:"options,omitempty" jsonschema:"Answers to choose from. Without them the user types an answer."`
	Multiple bool     `json:"multiple,omitempty" default:"false" jsonschema:"Several options may be chosen."`
	FreeText bool     `json:"free_text,omitempty" default:"false" jsonschema:"Answers other than the options are allowed, too."`
	Timeout  int      `json:"timeout,omitempty" default:"600000" min:"1" jsonschema:"How long to wait, in milliseconds."`
	// Questions contains questions that are asked one after the other. If Questions is set, Question must be empty.
	Questions []item `json:"questions,omitempty" jsonschema:"Several questions, in place of question."`
}

// item is one of several questions.
type item struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Multiple bool     `json:"multiple,omitempty"`
	FreeText bool     `json:"free_text,omitempty"`
}

type data struct {
	Outcome string   `json:"outcome"`
	Answers []string `json:"answers"`
	// Questions contains the answers to each question if the call has several questions.
	Questions []answers `json:"questions,omitempty"`
}

type answers struct {
	Question string   `json:"question"`
	Outcome  string   `json:"outcome"`
	Answers  []string `json:"answers"`
}

// Plugin returns the plugin that serves ask_user.
func Plugin() sdk.Plugin {
	return sdk.Plugin{Name: "ask", Version: "0.1.0", Needs: &sdk.Needs{}, Tools: []sdk.Tool{sdk.NewTool(sdk.Definition{
		Name: "ask_user",
		Role: tool.RoleAsk,
		Description: "Ask the user for a decision or a fact that you cannot find out, and wait for the answer. " +
			"The outcome is answered, declined, timeout or unavailable. After unavailable (there is nobody to ask), decide yourself and state your assumption, or stop.",
		Keywords: []string{"question", "person", "human", "clarify", "confirm", "choose", "decision"},
		Category: tool.CategoryBuiltin,
		Traits:   sdk.Traits{ReadOnly: true, AutoExecute: true},
		Examples: []string{
			`ask_user 'Which database does the service use in production?'`,
			`ask_user 'Delete the old migrations?' --options yes --options no`,
			`ask_user 'Which of these to build?' --options linux --options darwin --options windows --multiple`,
		},
		DefaultTimeout: -1,
	}, ask)}}
}

func ask(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	if len(in.Questions) > 0 {
		return askAll(ctx, call, in)
	}
	if err := check(&in); err != nil {
		return nil, err
	}
	return askOne(ctx, call, in)
}

// askAll asks several questions one after the other. It stops at the first question without an answer.
func askAll(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	if in.Question != "" || len(in.Options) > 0 {
		return nil, sdk.Errorf(tool.InvalidArguments, "Both question and questions are given. Remove one of the two.")
	}
	if len(in.Questions) > maxQuestions {
		return nil, sdk.Errorf(tool.InvalidArguments, "The call has %d questions, and the limit is %d. Ask the most important ones.", len(in.Questions), maxQuestions)
	}
	all := make([]args, len(in.Questions))
	for i, q := range in.Questions {
		all[i] = args{
			Question: q.Question, Options: q.Options, Multiple: q.Multiple, FreeText: q.FreeText, Timeout: in.Timeout,
		}
		if err := check(&all[i]); err != nil {
			e := tool.AsError(err)
			return nil, sdk.Errorf(e.Kind, "Question %d: %s", i+1, e.Message)
		}
	}
	var text strings.Builder
	out := data{Outcome: answered, Answers: []string{}}
	for _, q := range all {
		res, err := askOne(ctx, call, q)
		var one data
		if err == nil {
			err = json.Unmarshal(res.Data, &one)
		}
		if err != nil {
			return nil, err
		}
		out.Outcome, out.Answers = one.Outcome, append(out.Answers, one.Answers...)
		out.Questions = append(out.Questions, answers{q.Question, one.Outcome, one.Answers})
		if res.Error != nil {
			res.Data = sdk.Data(out)
			return res, nil //nolint:nilerr // the result has the error
		}
		fmt.Fprintf(&text, "%s\n%s\n", q.Question, strings.ReplaceAll("> "+res.Output, "\n", "\n> "))
		if one.Outcome != answered {
			break
		}
	}
	return &sdk.Result{Title: "Ask the user", Output: text.String(), Data: sdk.Data(out)}, nil
}

// askOne asks a question whose arguments are already checked.
func askOne(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(in.Timeout)*time.Millisecond, errNoAnswer)
	defer cancel()
	call.Progress("Waiting for the user's answer", nil)
	q := tool.Question{
		Text: in.Question, Options: in.Options, Multiple: in.Multiple, FreeText: in.FreeText || len(in.Options) == 0,
	}
	for try := 1; ; try++ {
		a, err := call.Question(ctx, q)
		if errors.Is(context.Cause(ctx), errNoAnswer) {
			a, err = tool.Answer{Outcome: tool.AnswerTimeout}, nil
		}
		if err != nil {
			return nil, err
		}
		if a.Outcome == tool.Accepted {
			wrong := in.wrong(a.Values)
			if wrong == "" {
				return result(answered, a.Values, strings.Join(a.Values, "\n")), nil
			}
			if try < tries {
				q.Text = wrong + "\n" + in.Question
				continue
			}
			return result(declined, nil, "The user's answer is invalid: "+wrong), nil
		}
		return other(&in, a), nil
	}
}

var errNoAnswer = errors.New("nobody answered in time")

// other returns the result for a question without an answer, for example after a timeout.
func other(in *args, a tool.Answer) *sdk.Result {
	why := ""
	if a.Message != "" {
		why = " (" + strings.TrimSuffix(a.Message, ".") + ")"
	}
	switch a.Outcome {
	case tool.Declined:
		return result(declined, nil, "The user declined to answer"+why+". Do not ask the same again.")
	case tool.AnswerTimeout:
		return result(timedOut, nil,
			fmt.Sprintf("The user did not answer within %s%s.", time.Duration(in.Timeout)*time.Millisecond, why))
	}
	if strings.Contains(a.Message, "nobody to ask") {
		why = ""
	}
	res := sdk.Errorf(tool.ExecutionFailed, "There is nobody to ask%s. Decide yourself and state your assumption, or stop and state what you need to know.", why)
	return &sdk.Result{Error: res, Data: sdk.Data(data{Outcome: unavailable, Answers: []string{}})}
}

func result(outcome string, values []string, text string) *sdk.Result {
	if values == nil {
		values = []string{}
	}
	return &sdk.Result{Title: "Ask the user", Output: text, Data: sdk.Data(data{Outcome: outcome, Answers: values})}
}

func check(in *args) error {
	if strings.TrimSpace(in.Question) == "" {
		return sdk.Errorf(tool.InvalidArguments, "The question is empty. Say what you want to know.")
	}
	if n := len([]rune(in.Question)); n > maxText {
		return sdk.Errorf(tool.InvalidArguments, "The question has %d characters, and the limit is %d. Shorten the question.", n, maxText)
	}
	if len(in.Options) > maxOptions {
		return sdk.Errorf(tool.InvalidArguments, "The question has %d options, and the limit is %d. Remove some options and set free_text.", len(in.Options), maxOptions)
	}
	for i, o := range in.Options {
		switch {
		case strings.TrimSpace(o) == "":
			return sdk.Errorf(tool.InvalidArguments, "Option %d is empty. Remove this option.", i+1)
		case len([]rune(o)) > maxOption:
			return sdk.Errorf(tool.InvalidArguments, "Option %d has more than %d characters. Put the explanation into the question.", i+1, maxOption)
		case slices.Contains(in.Options[:i], o):
			return sdk.Errorf(tool.InvalidArguments, "The option %q is given twice. Remove one of the two.", o)
		}
	}
	if in.Multiple && len(in.Options) == 0 {
		return sdk.Errorf(tool.InvalidArguments, "The parameter multiple is set, but options is empty. Set options, or remove multiple.")
	}
	if in.Timeout == 0 {
		in.Timeout = int(defaultTime.Milliseconds())
	}
	if time.Duration(in.Timeout)*time.Millisecond > maxTimeout || in.Timeout < 0 {
		return sdk.Errorf(tool.InvalidArguments, "The timeout is %d ms. Set timeout to a number from 1 to %d.", in.Timeout, maxTimeout.Milliseconds())
	}
	return nil
}

// wrong returns the reason why the answers are not valid for the question. If the answers are valid, it returns "".
func (in *args) wrong(answers []string) string {
	switch {
	case len(answers) == 0 || len(answers) == 1 && strings.TrimSpace(answers[0]) == "":
		return "The answer is empty."
	case len(answers) > 1 && !in.Multiple:
		return "Several answers were chosen, but the question allows only one."
	case len(in.Options) == 0 || in.FreeText:
		return ""
	}
	for _, a := range answers {
		if !slices.Contains(in.Options, a) {
			return fmt.Sprintf("%q is not one of the options.", a)
		}
	}
	return ""
}
