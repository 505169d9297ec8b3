package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Category is the origin of a tool.
type Category string

// The values of [Category].
const (
	CategoryBuiltin Category = "builtin"
	CategoryCustom  Category = "custom"
	CategoryMCP     Category = "mcp"
	// CategoryRelay is the category of exchanges with a [Relay] in the host. No tool can have it.
	CategoryRelay Category = "relay"
)

// Definition contains everything that a caller needs to know to use a tool.
type Definition struct {
	// Name is the name of the tool, which must be unique in its layer. See [ValidName] for its form.
	Name string `json:"name"`
	// Description explains to a model the purpose of the tool and when to use it.
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments. Its type is object. Positional arguments fill the parameters in the
	// order of "required", then in the order of "properties".
	Input json.RawMessage `json:"input_schema"`
	// Output is the JSON Schema of [Result.Data]. If Output is nil, the form of the data is not specified.
	Output   json.RawMessage `json:"output_schema,omitempty"`
	Traits   Traits          `json:"traits"`
	Category Category        `json:"category"`
	// Version is the version of the tool. If it is empty, the tool has the version of the plugin.
	Version string `json:"version,omitempty"`
	// Examples contains complete command lines for the help.
	Examples []string `json:"examples,omitempty"`
	// StdinParameter is the name of the parameter that receives the text of a heredoc or of standard input.
	StdinParameter string `json:"stdin_parameter,omitempty"`
	// DefaultTimeout limits the duration of a call. Zero means the host's default. A negative value means that the
	// tool limits its calls itself and the host enforces only its upper limit.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
	// Title is the name of the tool for people. It can be empty.
	Title string `json:"title,omitempty"`
	// Icons is a JSON array of icons, as MCP defines it. Nil means no icons.
	Icons json.RawMessage `json:"icons,omitempty"`
	// Deprecated is a text that names the replacement of a tool that will be removed. It is empty for all other tools.
	Deprecated string `json:"deprecated,omitempty"`
	// OriginalName is the name that [NameOf] converted to Name, such as "getWeather". A search for tools also matches
	// its words. It is empty if Name is the original name.
	OriginalName string `json:"original_name,omitempty"`
	// Keywords lists further words that find the tool in a search, besides its name and description. They are what a
	// person would call the tool, such as "change" and "modify" for an edit. They only serve the search.
	Keywords []string `json:"keywords,omitempty"`
	// Role is the purpose of a tool that the host or a frontend uses itself, such as [RoleShell]. Most tools have none.
	Role Role `json:"role,omitempty"`
	// Program describes the program of the shell that has the same name as the tool. Nil means that there is no such
	// program, and each command with the name runs the tool.
	Program *Program `json:"program,omitempty"`
	// Varying lists parts of [Result.Data] that differ between equal calls, such as a duration, as JSON pointers. In a
	// pointer, "*" stands for each element of an array or an object. Comparisons of recorded calls ignore these parts.
	Varying []string `json:"varying,omitempty"`
	// Unordered lists arrays in [Result.Data] whose order does not matter, as JSON pointers with "*". The word "output"
	// stands for the lines of [Result.Output].
	Unordered []string `json:"unordered,omitempty"`
}

// Traits are promises about a tool. They determine how the host treats the tool. The zero value promises nothing and
// leads to the most careful treatment.
type Traits struct {
	// ReadOnly means that the tool changes nothing. The host is allowed to retry its calls after a crash.
	ReadOnly bool `json:"read_only"`
	// ConcurrencySafe means that a call of the tool can run at the same time as other calls.
	ConcurrencySafe bool `json:"concurrency_safe"`
	// Dangerous means that each call needs a confirmation unless the policy allows the call.
	Dangerous bool `json:"dangerous"`
	// AutoExecute means that an agent is allowed to call the tool without asking first.
	AutoExecute bool `json:"auto_execute"`
	// Disabled means that the tool is off until the operator enables it.
	Disabled bool `json:"disabled,omitempty"`
	// Cacheable means that the host is allowed to return an earlier result after it has checked that the files in
	// [Result.Effects] are unchanged. The tool must be ReadOnly. Its results must depend only on the arguments, the
	// call's working directory and roots, and the contents of these files. They must not depend on the existence of
	// other files, the time, the session or the network.
	Cacheable bool `json:"cacheable,omitempty"`
	// Idempotent means that a call has the same effect whether it runs once or twice.
	Idempotent bool `json:"idempotent"`
}

// ValidName reports whether s is a valid name of a tool, a plugin or a field namespace. A valid name has at most 64
// characters and begins with a letter. It contains only lower-case letters, digits, '_', '-' and '.'.
func ValidName(s string) bool {
	if s == "" || len(s) > maxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

const maxName = 64

// NameOf converts a name from another system, such as "getWeather", to a valid name. It converts letters to lower case
// and replaces other characters by '_'. An empty name stays empty. Two different names can have the same result; see
// [DistinctName].
func NameOf(s string) string {
	if s == "" {
		return ""
	}
	valid := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r):
			return r
		}
		return '_'
	}, s)
	if valid[0] < 'a' || valid[0] > 'z' {
		valid = "t" + valid
	}
	if len(valid) > maxName {
		return DistinctName(valid, s)
	}
	return valid
}

// DistinctName appends a hash of the original name to a result of [NameOf]. Two original names with the same result
// of NameOf then have different names.
func DistinctName(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxName-len(mark))] + mark
}

// Validate returns an error that joins all problems of the definition. If there are no problems, it returns nil.
func (d *Definition) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch {
	case d.Name == "":
		fail("the name is empty")
	case !ValidName(d.Name):
		fail("invalid name %q; use lower-case letters, digits, '_', '-' and '.', beginning with a letter, at most 64 characters", d.Name)
	}
	if strings.TrimSpace(d.Description) == "" {
		fail("the description is empty")
	}
	switch d.Category {
	case CategoryBuiltin, CategoryCustom, CategoryMCP, "":
	default:
		fail("unknown category %q; use builtin, custom or mcp", d.Category)
	}
	schema, err := ParseSchema(d.Input)
	if err != nil {
		fail("the input schema is not valid: %w", err)
	} else if d.StdinParameter != "" && schema.Param(d.StdinParameter) == nil {
		fail("the stdin parameter %q is not a property of the input schema", d.StdinParameter)
	}
	return errors.Join(errs...)
}
