package tool

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// parametersOf lists the parameters that a tool with a role needs. "write:" or "read:" before a name means that the
// parameter must be marked as a path to write or to read.
var parametersOf = map[Role][]string{
	RoleShell: {"command"}, RoleJobs: {"action", "id"},
	RoleRead: {"read:file_path"}, RoleWrite: {"write:file_path", "content"},
	RoleEdit:     {"write:file_path", "old_string", "new_string"},
	RoleNotebook: {"write:notebook_path"},
	RoleUndo:     {"action", "steps", "to", "write:file_path"}, RoleRedo: {"action", "steps", "write:file_path"},
	RoleBranch: {"action"},
	RoleSearch: {"pattern", "read:path"}, RoleFind: {"pattern", "read:path"}, RoleList: {"read:path"},
	RoleSymbols: {"query"},
	RoleFetch:   {"url"}, RoleAsk: {"questions"}, RolePlan: {"todos"},
}

// CheckClaims returns the problems in what a plugin declares about its tools and its files: roles, programs of the
// shell and files that it keeps. A host can use the plugin, but what it declares has no effect, or not the intended
// one.
func (d *Description) CheckClaims() (problems []error) {
	holders := make(map[Role]string)
	for i := range d.Tools {
		t := &d.Tools[i]
		fail := func(format string, a ...any) {
			problems = append(problems, fmt.Errorf("tool %q: "+format, append([]any{t.Name}, a...)...))
		}
		schema, err := ParseSchema(t.Input)
		if err != nil {
			continue // Validate reports it
		}
		if ShellWord(t.Name) {
			fail("the name is a builtin of the shell, and a command line with it runs the builtin; rename the tool")
		}
		t.checkRole(schema, fail)
		if other := holders[t.Role]; t.Role != "" && other != "" {
			fail("the tool %q has the role %q, too, and only the first tool has an effect", other, t.Role)
		}
		holders[t.Role] = t.Name
		if t.Program != nil {
			t.Program.check(schema, fail)
		}
	}
	return append(problems, d.checkKeeps()...)
}

func (d *Definition) checkRole(schema *Schema, fail func(format string, a ...any)) {
	switch {
	case d.Role == "":
		return
	case !d.Role.Known():
		fail("unknown role %q; use one of %q", d.Role, Roles)
		return
	case d.Claims() == "":
		fail("the role %q changes files, and the tool is read_only; remove one of the two", d.Role)
	}
	for _, needed := range parametersOf[d.Role] {
		kind, name, marked := strings.Cut(needed, ":")
		if !marked {
			name = needed
		}
		switch p := schema.Param(name); {
		case p == nil:
			fail("the role %q needs the parameter %q", d.Role, name)
		case marked && p.Path != kind:
			fail(`the role %q needs the parameter %q with "x-toolhost-path": %q`, d.Role, name, kind)
		}
	}
}

func (p *Program) check(schema *Schema, fail func(format string, a ...any)) {
	parameter := func(what, argument string) {
		if name, _, _ := strings.Cut(argument, "="); argument != "" && schema.Param(name) == nil {
			fail("%s of the program sets %q, which is no parameter", what, name)
		}
	}
	parameter("the first operand", p.First)
	parameter(`"otherwise"`, p.Otherwise)
	if p.Operands < 0 {
		fail("the program has %d operands", p.Operands)
	}
	if !slices.Contains([]Operand{OperandAny, OperandVariable, OperandScript}, p.Operand) {
		fail("unknown form %q of the program's operands; use %q or %q", p.Operand, OperandVariable, OperandScript)
	}
	if _, known := p.Options[p.Number]; p.Number != "" && !known {
		fail("a number stands for the option %q, which the program does not have", p.Number)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Options)) {
		o := p.Options[name]
		parameter(fmt.Sprintf("the option %q", name), o.Argument)
		switch {
		case name == "" || strings.HasPrefix(name, "-"):
			fail("%q is not the name of an option without dashes", name)
		case o.Argument == "" && (o.Value || o.Suffix != ""):
			fail("the option %q of the program has a value and no argument", name)
		case o.Argument != "" && !strings.Contains(o.Argument, "="):
			fail(`the argument %q of the option %q is not of the form "name=value"`, o.Argument, name)
		case slices.Contains(p.Others, name):
			fail(`the option %q of the program is also in "others"`, name)
		}
	}
}

func (d *Description) checkKeeps() (problems []error) {
	fail := func(format string, a ...any) { problems = append(problems, fmt.Errorf("keeps: "+format, a...)) }
	schema, err := ParseSchema(d.ConfigSchema)
	if err != nil {
		schema = new(Schema) // without a configuration, there are no attributes
	}
	for _, k := range d.Keeps {
		if k.Kind != KeptOutput && k.Kind != KeptUndo {
			fail("unknown kind %q; use %q or %q", k.Kind, KeptOutput, KeptUndo)
		}
		switch p := schema.Param(k.Age); {
		case k.Age == "":
		case p == nil:
			fail("the age is %q, which is no attribute of the configuration", k.Age)
		case !p.Is("string"):
			fail("the attribute %q is no string, and an age is one, such as \"720h\"", k.Age)
		}
		for _, glob := range k.Files {
			if _, err := path.Match(glob, ""); err != nil || strings.Contains(glob, "/") || glob == "" || glob == ".." {
				fail("%q is not a glob for names in the state directory", glob)
			}
		}
	}
	return problems
}
