package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Environment holds the values that a configuration can refer to.
type Environment struct {
	// BundledDir is the directory of the bundled plugins. The host searches this directory for plugins without a path.
	BundledDir string
	// Installed returns the program of a plugin from a registry. The argument "config" is the path of the
	// configuration. Nil means that no such plugin is installed.
	Installed func(config, plugin, source string) Installation
	// InstalledPackage returns the program of an MCP server that is a package. Nil means that none is installed.
	InstalledPackage func(config, field, spec string) PackageInstallation
	// LookupEnv returns the value of an environment variable for the function "env". Nil means os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Variables contains values of variables in the form "NAME=VALUE". If a name occurs several times, the last value
	// applies. Variables overrides VariableFiles, and VariableFiles overrides the environment variable
	// $TOOLHOST_VAR_NAME.
	Variables     []string
	VariableFiles []string
}

// builtIn is the source of the default configuration. It is also the file name in positions of bundled plugins without
// a block.
const builtIn = "built-in"

// EnvVar is the environment variable that contains the path of the configuration.
const EnvVar = "TOOLHOST_CONFIG"

// Find returns the path of the configuration to use. It tries the argument "path", $TOOLHOST_CONFIG, toolhost.hcl in
// the directory dir, and the file in the user's configuration directory, in this order. It returns the first path that
// exists, or "" for the built-in configuration. An empty dir means the current directory.
func Find(path, dir string, getenv func(string) string) string {
	if path != "" {
		return path
	}
	if p := getenv(EnvVar); p != "" {
		if dir != "" && !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		return p
	}
	if p := existing(dir); p != "" {
		return p
	}
	if user := UserDir(getenv); user != "" {
		return existing(filepath.Join(user, "toolhost"))
	}
	return ""
}

// ProjectFiles lists the names of configuration files in the current directory, in the order of preference.
var ProjectFiles = []string{"toolhost.hcl", "toolhost.hcl.json"}

// FindUser returns the path of the configuration file in the user's configuration directory. It returns "" if the file
// does not exist.
func FindUser() string {
	if dir := UserDir(os.Getenv); dir != "" {
		return existing(filepath.Join(dir, "toolhost"))
	}
	return ""
}

// existing returns the path of the first project file that exists in a directory, or "".
func existing(dir string) string {
	for _, name := range ProjectFiles {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// UserDir returns the user's configuration directory, like [os.UserConfigDir]. It returns "" if it is unknown.
func UserDir(getenv func(string) string) string {
	dir, home := getenv("XDG_CONFIG_HOME"), getenv("HOME")
	switch {
	case runtime.GOOS == "darwin" && home != "":
		return filepath.Join(home, "Library", "Application Support")
	case runtime.GOOS == "darwin":
		return ""
	case filepath.IsAbs(dir):
		return dir
	case dir == "" && home != "":
		return filepath.Join(home, ".config")
	}
	return ""
}

// Load reads a configuration from a file or a directory of files. A file with a name that ends in ".json" must contain
// JSON. All other files use the native syntax of HCL. An empty path means the built-in configuration. If all files can
// be read, a returned error is an [*Error].
func Load(path string, env Environment) (*Config, error) {
	if path == "" {
		return decode(nil, nil, hclparse.NewParser(), builtIn, "", env)
	}
	names, err := List(path)
	if err != nil {
		return nil, err
	}
	p := hclparse.NewParser()
	var files []*hcl.File
	var diags hcl.Diagnostics
	for _, name := range names {
		f, d := parseFile(p, name)
		diags = append(diags, d...)
		if f != nil {
			files = append(files, f)
		}
	}
	dir := filepath.Dir(names[0])
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	cfg, err := decode(files, diags, p, path, dir, env)
	if err != nil {
		return nil, err
	}
	cfg.Path = path
	return cfg, nil
}

// Parse reads a configuration from the text src. The argument "name" is the file name in errors. Relative paths are
// relative to the file system root.
func Parse(src []byte, name string, env Environment) (*Config, error) {
	p := hclparse.NewParser()
	if at := nestedHCL(src, name); at != nil {
		return decode(nil, hcl.Diagnostics{tooDeep(*at)}, p, name, "", env)
	}
	f, diags := p.ParseHCL(src, name)
	return decode([]*hcl.File{f}, diags, p, name, "", env)
}

// Source identifies the configuration to load.
type Source struct {
	// Path is a file or a directory. Empty means the built-in default.
	Path string
	// Empty selects a configuration without content. If Empty is true, Path is ignored.
	Empty bool
	Environment
}

// Load reads the configuration. If all files can be read, a returned error is an [*Error].
func (s Source) Load() (*Config, error) {
	if s.Empty {
		return empty(), nil
	}
	return Load(s.Path, s.Environment)
}

// Files lists the files on which the configuration depends. cfg must be a result of [Source.Load]. If one of the files
// changes, Load can return a different configuration.
func (s Source) Files(cfg *Config) []string {
	paths := cfg.Binaries()
	if s.Path == "" {
		return paths
	}
	names, _ := List(s.Path) // ignore the error: if the list is empty, it differs from the earlier list, so the change is noticed
	return slices.Concat(paths, names, cfg.Files(), s.VariableFiles, []string{VariableFile(s.Path)})
}

// empty returns a configuration without content.
func empty() *Config {
	p := hclparse.NewParser()
	f, diags := p.ParseHCL(nil, "nothing")
	cfg, err := decode([]*hcl.File{f}, diags, p, "nothing", "", Environment{
		LookupEnv: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		panic("config: the empty configuration is invalid: " + err.Error())
	}
	return cfg
}

// List returns the files of a configuration, sorted by name.
func List(path string) ([]string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the configuration %s does not exist: create it, or unset --config and $%s to use the built-in one", path, EnvVar)
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	case !st.IsDir() && !st.Mode().IsRegular():
		return nil, fmt.Errorf("the configuration %s is neither a file nor a directory", path)
	case !st.IsDir():
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !e.IsDir() && !strings.HasPrefix(n, ".") &&
			(strings.HasSuffix(n, ".hcl") || strings.HasSuffix(n, ".hcl.json")) {
			names = append(names, filepath.Join(path, n))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the configuration directory %s has no file that ends in .hcl or .hcl.json", path)
	}
	slices.Sort(names)
	return names, nil
}
