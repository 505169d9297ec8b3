package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// evalContext returns the names that expressions can use: "config_dir", "bundled_dir", "home" and all functions. It
// calls the argument "read" for each file that a configuration function reads.
func evalContext(dir string, env Environment, read func(path string, text []byte)) *hcl.EvalContext {
	home, err := os.UserHomeDir()
	if err != nil {
		home = string(filepath.Separator)
	}
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{
			"config_dir":  cty.StringVal(dir),
			"bundled_dir": cty.StringVal(env.BundledDir),
			"home":        cty.StringVal(home),
		},
		Functions: functions(dir, env, read),
	}
}

// functions returns the functions that expressions can use, by name. These are standard functions of HCL, "env", "file"
// and functions for paths.
func functions(dir string, env Environment, read func(string, []byte)) map[string]function.Function {
	return map[string]function.Function{
		"env":  envFunction(env.lookup()),
		"file": fileFunction(dir, read),
		"abspath": pathFunction("An absolute path. A relative path begins at the directory of the configuration.", func(p string) string {
			if filepath.IsAbs(p) {
				return filepath.Clean(p)
			}
			return filepath.Join(dir, p)
		}),
		"basename": pathFunction("The last element of a path.", filepath.Base),
		"dirname":  pathFunction("A path without its last element.", filepath.Dir),

		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(cty.String),

		"format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "replace": stdlib.ReplaceFunc,
		"split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc, "substr": stdlib.SubstrFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

		"max": stdlib.MaxFunc, "min": stdlib.MinFunc,

		"coalesce": stdlib.CoalesceFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
		"flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc,
		"merge": stdlib.MergeFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc,

		"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
	}
}

func (e Environment) lookup() func(string) (string, bool) {
	if e.LookupEnv != nil {
		return e.LookupEnv
	}
	return os.LookupEnv
}

func envFunction(look func(string) (string, bool)) function.Function {
	return function.New(&function.Spec{
		Description: "The value of an environment variable, or the second argument when it is not set.",
		Params:      []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam:    &function.Parameter{Name: "default", Type: cty.String},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if v, ok := look(args[0].AsString()); ok {
				return cty.StringVal(v), nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return cty.NilVal, function.NewArgErrorf(0, "the environment variable %s is not set; give a default as the second argument", args[0].AsString())
		},
	})
}

func pathFunction(what string, f func(string) string) function.Function {
	return function.New(&function.Spec{
		Description: what,
		Params:      []function.Parameter{{Name: "path", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(f(args[0].AsString())), nil
		},
	})
}

func fileFunction(dir string, read func(string, []byte)) function.Function {
	return function.New(&function.Spec{
		Description: "The text of a file in the directory of the configuration or below, of at most 1 MiB.",
		Params:      []function.Parameter{{Name: "path", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := readBeside(dir, args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			read(filepath.Join(dir, args[0].AsString()), text)
			return cty.StringVal(string(text)), nil
		},
	})
}

// readBeside reads a file inside a directory. The kernel resolves the path and rejects a path that leaves the directory
// through "..", a symbolic link or an absolute path. Therefore no other process can change the path between the check
// and the use.
func readBeside(dir, path string) (text []byte, err error) {
	if dir == "" {
		return nil, errors.New("the built-in configuration has no directory")
	}
	if filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s is absolute: use a path relative to the directory of the configuration", path)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	text, err = readRegular(func(flags int) (*os.File, error) { return root.OpenFile(filepath.Clean(path), flags, 0) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w; the file must be in the directory of the configuration and have at most %d MiB", path, err, maxSource>>20)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%s is not text in UTF-8", path)
	}
	return text, nil
}

// Function describes a function that expressions can use.
type Function struct {
	// Signature uses the notation of HCL, such as lower(str).
	Signature, Doc string
}

// Functions returns all functions, sorted by name.
func Functions() []Function {
	all := functions("", Environment{}, func(string, []byte) {})
	var out []Function
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		var params []string
		for _, p := range f.Params() {
			params = append(params, p.Name)
		}
		if v := f.VarParam(); v != nil {
			params = append(params, v.Name+"…")
		}
		out = append(out, Function{Signature: name + "(" + strings.Join(params, ", ") + ")", Doc: f.Description()})
	}
	return out
}
