# A tour of the configuration of toolhost. Copy what you need to toolhost.hcl in your
# project, or to the toolhost directory of your user's configuration. Without any
# configuration the bundled plugins are enabled and the workspace is the only root.
#
#   toolhost config validate --config config.hcl

host {
  # What goes to standard error: debug, info, warn or error.
  log_level = "warn"

  # Where sessions and caches are kept; default: the user's state directory.
  # state_dir = "~/.local/state/toolhost"

  # What becomes of a permission ask: allow, deny, or prompt at the terminal.
  on_ask = "deny"

  # How long a call may take when neither its tool nor a tool block says otherwise.
  timeout = "2m"

  # How many calls of one session may run at the same time, where they are safe beside
  # each other.
  max_parallel = 10

  # How many calls of all sessions may run at the same time; those of tools with a higher
  # priority in their tool block go first. Without it, any number.
  # max_calls = 64

  # Has limits set by how calls went, and results kept that are slow to come by; toolhost stats
  # shows what came of it.
  # adaptive = true

  # How often plugins that run are asked how they are; one that is unhealthy is replaced.
  # Without it, only toolhost status asks.
  # health_interval = "1m"

  # Sets of aliases by which agents find tools under names they learned elsewhere: "common"
  # (file_read, write_file, shell_exec, …) and "claude" (Read, Edit, Bash, …).
  aliases = ["common", "claude"]
}

sandbox {
  # The directory given by --workspace is the read-write root; "read-only" protects it.
  workspace = "read-write"

  # Further directories that tools may read, and write where writable = true. A relative
  # path starts where this file stands.
  root "docs" {
    writable = false
  }

  # "contained" follows symbolic links and ".." as long as they stay inside the roots;
  # "strict" refuses both.
  paths = "contained"

  # How the kernel confines plugins: "ns" (namespaces and all the rest), "landlock", "none",
  # or the best there is. toolhost doctor says what holds on this machine.
  backend = "auto"

  # "auto" runs plugins with what there is, "require" refuses to start without the backend,
  # "off" confines none.
  enforce = "auto"

  # Globs over absolute paths. A path must match one of allow, when there is one, and
  # none of deny.
  deny = ["**/.env", "**/*.pem"]
}

# What calls may be made, within the sandbox. All rules that match count: deny over ask over
# allow. docs/operators.md says it all; toolhost policy check COMMAND shows what would be.
permissions {
  # What becomes of a call that no rule is about: allow, ask or deny.
  default = "allow"

  # "allow-list": no command runs that an allow rule does not name.
  commands = "rules"

  # The built-in rules, against commands that destroy the machine.
  builtin = true

  deny "keys" {
    path   = ["~/.ssh/**", "**/*.key"]
    reason = "it holds keys"
  }

  ask "what others see" {
    command = ["git push *", "npm publish *"]
  }

  # A call may be changed: these commands get a minute.
  allow "installing" {
    command = "npm install *"
    set     = { timeout = 60000 }
  }

  # Run by toolhost policy test.
  test "nobody pushes unasked" {
    command = "sh -c 'git push'"
    expect  = "ask"
  }
}

# A program, or a plugin (plugin = "NAME"), that hears of calls and tools, and may veto or change
# calls and results. docs/operators.md says how it answers. It must lie where tools cannot write.
#
# hook "guard" {
#   on         = ["before_call", "after_call"] # also register and unregister
#   tools      = ["bash", "jira:*"]
#   command    = ["/usr/local/bin/guard"]
#   env        = { GUARD_MODE = "strict" }
#   priority   = 10
#   timeout    = "5s"
#   on_failure = "deny"
# }

# Every call is kept, secrets masked: toolhost log. The values of these environment
# variables are masked wherever they stand.
audit {
  enabled  = true
  max_size = "64MiB"
  max_age  = "2160h"
  secrets  = ["JIRA_PASSWORD"]
}

# Traces of calls go to a collector that takes OTLP over HTTP, also by the variables that
# OpenTelemetry has for that (OTEL_EXPORTER_OTLP_ENDPOINT, …).
#
# tracing {
#   endpoint = "http://localhost:4318"
#   headers  = { Authorization = env("OTLP_TOKEN", "") }
#   sample   = 0.1
# }

# What becomes of plugins that are not pinned when they say other things of their tools than
# before: "report" tells, "approve" holds these tools back until toolhost plugin approve NAME.
trust {
  definitions = "report"
}

reload {
  # Whether a host that lives longer than a call takes over changed plugins and changed
  # files of its configuration by itself. toolhost plugin reload and SIGHUP do in any case.
  watch = true

  # "compatible" refuses a version of a plugin that breaks who uses its tools, such as one
  # that lacks a tool, until the operator accepts it; "any" takes it over.
  changes = "compatible"

  # When a configuration that lets tools do more is applied (toolhost config plan shows what):
  # "explicit" if somebody asks for a reload, "approve" only by
  # toolhost config reload --approve-privileges, "allow" also automatically.
  privilege_increases = "explicit"
}

# A plugin is a binary that serves tools. Without a path it is looked for in the plugins
# directory beside the executable. toolhost plugin pin pins plugins to what they are now, in
# a lock file beside this one.
plugin "read" {}

plugin "edit" {
  config {
    # Which strategies may find the text to replace, by glob; a file that matches several
    # globs gets what all of them allow. Without an entry: all nine, which are exact,
    # line-trimmed, block-anchor, whitespace-normalised, indentation-flexible,
    # escape-normalised, trimmed-boundary, context-aware and multi-occurrence.
    strategies = {
      "*.{yaml,yml}" = ["exact"]
    }

    # How many MiB of earlier contents undo keeps, of all sessions together.
    history_mb = 64
  }
}

plugin "grep" {
  config {
    # What the indexes of searched trees may take together, and in an eighth of it what
    # code_query knows of their declarations; over it files are read again.
    memory_mb = 512

    # How changes are noticed: "events" of the kernel where there are any, or "stat" of
    # every file for each call.
    freshness = "events"

    # After how many seconds a search gives what it has found so far.
    time_limit = 20
  }
}

# Pieces of code, kept for all sessions.
plugin "snippet" {
  config {
    # How many versions are kept of each, and how many MiB all of them may take.
    versions = 20
    max_mb   = 256
  }
}

# Questions to the user.
plugin "ask" {}

plugin "bash" {
  # Added to the environment that the plugin gets; nothing else of the host's own goes
  # there but PATH, HOME, USER, the locale and the like.
  env = {
    GOFLAGS = env("GOFLAGS", "")
  }

  # How long it may take from its start until it is ready.
  start_timeout = "10s"

  # One that cannot be started, or ends before it has answered a call, so often in a row is
  # left alone for a while; calls fail at once meanwhile.
  restart {
    failures = 5
    pause    = "30s"
  }

  # What the kernel lets it do. By its name, bash starts programs and writes in the
  # writable roots; read, grep and snippet do neither; all others write, but start nothing.
  sandbox {
    roots   = "read-write" # or "read-only", or "none"
    exec    = true         # may start programs
    network = false        # true lets it reach the network, and all services of localhost;
                           # ["proxy.golang.org", "*.github.com:443"] these hosts, by a proxy

    # "read-write" lets it write the hooks and settings of repositories, which git runs.
    git = "protected"

    # Further directories and files. What commands can write to, somebody outside may run.
    read  = ["~/.m2"]
    write = []

    # Of each process; processes are counted together, and bound root only in namespaces.
    limits {
      memory    = "8GiB"
      processes = 4096
      files     = 4096
      file_size = "16GiB"
      cpu       = "1h"

      # Of all of them together, where toolhost has a cgroup of its own to divide.
      total {
        memory    = "16GiB"
        processes = 2000
        cpus      = 4
      }
    }
  }
}

# Tools of a plugin with a field are called as "field:NAME tool" or "NAME:tool". An
# optional plugin is left out when its binary is not there.
plugin "jira" {
  path     = "plugins/jira"
  args     = ["--project", "TOOLS"]
  field    = "jira"
  optional = true

  # Plugins that are started before this one, and stopped after it.
  depends_on = ["bash"]

  # The plugin's own configuration, checked against the schema it declares. Errors are
  # shown at these lines.
  config {
    url = "https://jira.example.org"
  }
}

# An MCP server whose tools are called as "field:notes tool" or "notes:tool". It runs in the
# workspace, confined like a plugin that starts programs: what is neither in the roots nor
# of the system is named in a sandbox block, and so is the network.
#
# field "notes" {
#   # How long a call may take without progress, and the server until it has listed its tools.
#   timeout       = "2m"
#   start_timeout = "30s"
#
#   mcp {
#     command = ["node", "/srv/notes/server.js"]
#     env     = { NOTES_TOKEN = env("NOTES_TOKEN", "") }
#     cwd     = "notes" # default: the workspace
#   }
#
#   sandbox {
#     network = true
#     read    = ["/srv/notes"]
#   }
# }

# One that runs elsewhere is reached by streamable HTTP. Nothing is started for it until one
# of its tools is called, once its list of tools is known.
#
# field "tracker" {
#   mcp {
#     url     = "https://tracker.example.org/mcp"
#     headers = { Authorization = "Bearer ${env("TRACKER_TOKEN", "")}" }
#   }
# }

# Functions as OpenAI's and Anthropic's interfaces define them, called as "field:weather
# current" or "weather:current". A block has definitions, in a file or written out (as JSON text, or
# as here, where positional arguments are in the order of the alphabet), and what is behind them: a
# program that gets a call's arguments as JSON on standard input, the function's name in
# TOOLHOST_FUNCTION, and prints the answer; or an HTTP endpoint.
#
# field "weather" {
#   function {
#     file      = "functions.json"
#     command   = ["./weather.py"]
#     env       = { UNITS = "metric" }
#     read_only = true # a call may be repeated when it was cut off
#     # cwd        = "weather" # default: the session's directory
#     # concurrent = true      # calls may run beside each other
#     # dangerous  = true      # each call needs the user's consent
#   }
#   function {
#     definitions = {
#       name        = "current"
#       description = "The weather in a city now."
#       parameters = {
#         type       = "object"
#         properties = { city = { type = "string" } }
#         required   = ["city"]
#       }
#     }
#     # What does not stand in the address goes into the query of a GET or DELETE, and into a
#     # JSON body otherwise; the default is POST.
#     url     = "https://weather.example.org/v1/cities/{city}"
#     method  = "GET"
#     headers = { Authorization = "Bearer ${env("WEATHER_TOKEN", "")}" }
#   }
# }

# Another name for a tool, with further names for its parameters; one that begins with a
# dash is a short flag.
alias "search" {
  tool = "grep"
  params = {
    regex = "pattern"
    where = "path"
    "-i"  = "ignore_case"
  }
}

# What the operator says of a single tool.
tool "bash" {
  enabled = true
}

tool "grep" {
  timeout = local.quick

  # How many calls may run at once, of all sessions, and how many more may wait; the next
  # one fails at once.
  max_concurrent = 8
  queue          = 100

  # How often a call that only reads is tried when its plugin dies under it.
  attempts    = var.retries
  retry_delay = "50ms"

  # What is called in its place when it is not available, or takes too long. Parameters may
  # have other names there; what the other does not take is left out.
  fallback {
    tool = "glob"
    # params = { pattern = "glob" }
  }
}

# Values that differ from place to place: by --var, --var-file, toolhost.hclvars beside this
# file, or TOOLHOST_VAR_NAME, else the default. docs/configuration.md has all of it, and the functions.
variable "retries" {
  description = "How often a call that only reads is tried."
  type        = number
  default     = 3
}

locals {
  quick = "${var.retries * 10}s"
}
