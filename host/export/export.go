// Package export converts tool definitions to the formats of model APIs and prompts. [Functions] returns the tools of a
// host as functions, and [Write] writes them in a [Format].
package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// Format is a format of tool definitions.
type Format string

// Supported formats. The result is a single JSON value, except for XML.
const (
	// Anthropic is the "tools" array of the Messages API.
	Anthropic Format = "anthropic"
	// OpenAI is the "tools" array of Chat Completions. OpenAIResponses is the "tools" array of the Responses API. A
	// function is strict if its schema permits it.
	OpenAI          Format = "openai"
	OpenAIResponses Format = "openai-responses"
	// Gemini is the "tools" array of generateContent.
	Gemini Format = "gemini"
	// XML is a system prompt for a model without function calls. See [Prompt].
	XML Format = "xml"
	// JSONPrompt is a system prompt like XML, but calls are in JSON.
	JSONPrompt Format = "json-prompt"
)

// Formats lists all formats.
var Formats = []Format{Anthropic, OpenAI, OpenAIResponses, Gemini, XML, JSONPrompt}

// Function is a tool as a function for models.
type Function struct {
	// Name is a name that every API accepts. It consists of at most 48 characters: a-z, 0-9, '_' and '-'.
	Name string
	// Tool is the full name of the tool. It is empty for the function that [Single] returns.
	Tool        string
	Description string
	// Schema is the JSON Schema of the arguments, with the type "object".
	Schema json.RawMessage
}

// Functions returns one function for each enabled tool. The schemas do not contain keywords that only the host uses.
func Functions(tools []host.Tool) ([]Function, error) {
	var out []Function
	var errs []error
	for _, t := range tools {
		if !t.Enabled {
			continue
		}
		schema, err := plain(t.Input, t.Category == tool.CategoryBuiltin)
		if err != nil {
			errs = append(errs, fmt.Errorf("the schema of %s: %w", t.FullName, err))
			continue
		}
		out = append(out, Function{Name: t.FunctionName, Tool: t.FullName, Description: described(t), Schema: schema})
	}
	return out, errors.Join(errs...)
}

// described returns the description of a tool, followed by its limits.
func described(t host.Tool) string {
	if t.Limits == "" {
		return t.Description
	}
	return t.Description + "\n" + t.Limits
}

// Limits returns a description of the limits for commands of the shell. It returns "" if the shell is not enabled.
func Limits(tools iter.Seq[host.Tool]) string {
	for t := range tools {
		if IsShell(&t) && t.Enabled {
			return t.Limits
		}
	}
	return ""
}

// IsShell reports whether a tool runs the commands that name no tool. The function that [Single] returns replaces it.
func IsShell(t *host.Tool) bool { return t.Namespace == "" && t.Role == tool.RoleShell }

// SingleName is the name of the function that [Single] returns. Models know a function of this name from other
// programs.
const SingleName = "bash"

// Single returns one function that replaces all tools. Its argument is a command string.
func Single(tools []host.Tool) Function {
	return Function{
		Name: SingleName, Description: singleDescription(tools),
		Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string","description":"One command line: a tool, a field tool, or anything that bash runs."}},"required":["command"],"additionalProperties":false}`),
	}
}

func singleDescription(tools []host.Tool) string {
	var agent, field []string
	for _, t := range tools {
		switch {
		case !t.Enabled:
		case t.Namespace == "":
			agent = append(agent, t.Name)
		case !slices.Contains(field, "field:"+t.Namespace):
			field = append(field, "field:"+t.Namespace)
		}
	}
	text := "Run one command line. It goes to one of three layers. Agent tools (" + strings.Join(agent, ", ") +
		"): `" + example(tools) + "`; parameters are --name value, arguments are literal, a heredoc gives a long text."
	if len(field) > 0 {
		text += " Field tools (" + strings.Join(field, ", ") + "): `" + field[0] + " --help` lists the commands of one; they work in pipelines too."
	}
	return text + " Anything else is bash: pipelines, redirects, git, build tools; directory and variables last. `help` lists all tools, `NAME --help` describes one tool." + after(Preferences(tools)) + after(Limits(slices.Values(tools)))
}

// example returns a command line that calls a tool.
func example(tools []host.Tool) string {
	if i := slices.IndexFunc(tools,
		func(t host.Tool) bool { return t.Enabled && t.Namespace == "" && t.Role == tool.RoleRead }); i >= 0 {
		return tools[i].Name + " main.go --limit 20"
	}
	return "NAME VALUE --name VALUE"
}

// Preferences returns a sentence that names the tools that are better than programs of the shell. It returns "" if
// there is no such tool.
func Preferences(tools []host.Tool) string {
	var names, programs []string
	for _, p := range []struct {
		role    tool.Role
		program string
	}{{tool.RoleRead, "cat"}, {tool.RoleEdit, "sed"}, {tool.RoleSearch, "grep"}} {
		for _, t := range tools {
			if t.Enabled && t.Namespace == "" && t.Role == p.role {
				names, programs = append(names, t.Name), append(programs, p.program)
			}
		}
	}
	if names == nil {
		return ""
	}
	text := "Prefer " + list(names) + " to " + list(programs) + " in the shell"
	if slices.Contains(programs, "cat") && slices.Contains(programs, "sed") {
		text += ": an edit is refused unless the file was read"
	}
	return text + "."
}

// list joins words as in a sentence.
func list(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// after returns a sentence with a space in front of it. It returns "" for an empty sentence.
func after(sentence string) string {
	if sentence == "" {
		return ""
	}
	return " " + sentence
}

// Write writes functions to w in the given format.
func Write(w io.Writer, format Format, functions []Function) error {
	switch format {
	case XML, JSONPrompt:
		text, err := Prompt(format, functions)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		return err
	case Anthropic, OpenAI, OpenAIResponses, Gemini:
	default:
		return fmt.Errorf("the format %q is not known: use %s", format, names())
	}
	tools := []any{} // not nil, because JSON encodes nil as null
	for _, f := range functions {
		tools = append(tools, f.formatted(format))
	}
	if format == Gemini {
		tools = []any{map[string]any{"functionDeclarations": tools}}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(tools)
}

func names() string {
	var out []string
	for _, f := range Formats {
		out = append(out, string(f))
	}
	return strings.Join(out, ", ")
}

// JSON types of the formats. They are structs and not maps, because structs keep the order of their fields.
type (
	anthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	openAIFunction struct {
		Type        string          `json:"type,omitempty"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	openAITool struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	geminiTool struct {
		Name                 string          `json:"name"`
		Description          string          `json:"description"`
		ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
	}
)

func (f *Function) formatted(format Format) any {
	switch format {
	case OpenAI, OpenAIResponses:
		schema, ok := strict(f.Schema)
		if !ok {
			schema = f.Schema
		}
		fn := openAIFunction{Name: f.Name, Description: f.Description, Parameters: schema, Strict: ok}
		if format == OpenAI {
			return openAITool{Type: "function", Function: fn}
		}
		fn.Type = "function"
		return fn
	case Gemini:
		return geminiTool{f.Name, f.Description, f.Schema}
	default:
		return anthropicTool{f.Name, f.Description, f.Schema}
	}
}
