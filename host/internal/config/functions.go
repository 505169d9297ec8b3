package config

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// evalContext is what expressions may use: config_dir, bundled_dir, home, and env("NAME", "default").
func evalContext(dir string, env Environment) *hcl.EvalContext {
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
		Functions: map[string]function.Function{"env": envFunction(env.LookupEnv)},
	}
}

func envFunction(look func(string) (string, bool)) function.Function {
	if look == nil {
		look = os.LookupEnv
	}
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
