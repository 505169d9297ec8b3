package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"toolhost.dev/host/agent"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// proposedPolicy is the format of the configuration file that "toolhost setup" writes. Its argument is the policy.
const proposedPolicy = `# Asks before work is lost or data leaves the machine. The bundled tools stay as they are.
# toolhost config show shows the whole configuration.
permissions {
  policy = %q
}
`

// ProposePolicy adds a configuration file with a policy to the plan. The file is in the project or in the user's
// configuration directory. If a configuration already exists there, ProposePolicy only adds a note.
func ProposePolicy(p *agent.Plan, policy string) error {
	dir := p.Place.Dir
	if !p.Place.Project {
		user := config.UserDir(p.Place.Getenv)
		if user == "" {
			return errors.New("the directory of your configuration is unknown; set HOME")
		}
		dir = filepath.Join(user, "toolhost")
	}
	for _, name := range config.ProjectFiles {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			if cfg, err := (engine.Options{Config: path}).Configuration(); err != nil || cfg.Permissions.Policy == "" {
				p.Notes = append(p.Notes, fmt.Sprintf("%s sets no policy. To be asked before work is lost, add: permissions { policy = %q }", path, policy))
			}
			return nil
		}
	}
	return p.Propose(filepath.Join(dir, config.ProjectFiles[0]), fmt.Appendf(nil, proposedPolicy, policy))
}
