package admin

import (
	"path/filepath"

	"toolhost.dev/host/internal/telemetry"
)

// PluginLine is a line that a plugin printed or logged.
type PluginLine = telemetry.PluginLogEntry

// PluginLog reads the lines that a plugin printed. The log is common to all hosts with the same state directory.
type PluginLog struct{ reader *telemetry.PluginLogReader }

// OpenPluginLog opens the log of a plugin. The log exists even if the plugin is no longer configured. The caller must
// call Close.
func OpenPluginLog(opts Options, plugin string) (*PluginLog, error) {
	_, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, err
	}
	return &PluginLog{telemetry.NewPluginLogReader(filepath.Join(dir, "logs"), plugin)}, nil
}

// Read returns the lines since the last Read, oldest first.
func (l *PluginLog) Read() ([]PluginLine, error) { return l.reader.Read() }

// Close closes the log.
func (l *PluginLog) Close() { l.reader.Close() }
