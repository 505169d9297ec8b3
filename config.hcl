# A tour of the configuration. Copy what you need to toolhost.hcl in your project, or to
# the toolhost directory of your user's configuration. Without any configuration the
# bundled plugins are enabled, and the workspace is the only root.
#
#   toolhost config validate --config config.hcl

host {
  # The lowest level of messages on standard error: debug, info, warn or error.
  log_level = "warn"

  # The directory of sessions and caches. Default: the user's state directory.
  # state_dir = "~/.local/state/toolhost"

  # The decision on a permission ask: allow, deny, or prompt at the terminal.
  on_ask = "deny"

  # The timeout of a call, unless its tool or a tool block sets one.
  timeout = "2m"

  # The maximum number of concurrent calls of one session, if they are safe to run
  # together.
  max_parallel = 10

  # The maximum number of concurrent calls of all sessions. Tools with a higher priority in
  # their tool block go first. Default: no limit.
  # max_calls = 64

  # Whether limits follow earlier calls, and slow results are cached. toolhost stats shows
  # the current values.
  # adaptive = true

  # The interval of health checks. An unhealthy plugin is replaced. Without it, only
  # toolhost status checks.
  # health_interval = "1m"

  # Sets of aliases, with which agents find tools under the names that they know: "common"
  # (file_read, write_file, shell_exec, …) and "claude" (Read, Edit, Bash, …).
  aliases = ["common", "claude"]
}

sandbox {
  # Access to the workspace, which is the current directory or that of --workspace:
  # "read-write" or "read-only".
  workspace = "read-write"

  # A further directory that tools may read, and write if writable = true. A relative path
  # starts at the directory of this file.
  root "docs" {
    writable = false
  }

  # "contained" follows symbolic links and ".." as long as they stay inside the roots;
  # "strict" refuses both.
  paths = "contained"

  # The backend that confines plugins: "ns" (namespaces and Landlock), "landlock" (Landlock
  # alone), "none", or "auto" for the strongest available. toolhost doctor shows what holds
  # on this machine.
  backend = "auto"

  # "auto" uses the strongest available backend, "require" refuses to start without the
  # configured one, "off" confines no plugin.
  enforce = "auto"

  # What makes git run programs, in repositories that tools make: "quarantine" moves it to
  # the state directory (toolhost quarantine list), "off" keeps it.
  repositories = "quarantine"

  # Globs over paths that tools and commands can neither read nor write, in all roots.
  deny = ["**/.env", "**/*.pem"]
}

# Rules for the calls that may be made, within the sandbox. If several rules match, deny
# overrides ask, and ask overrides allow. toolhost policy check COMMAND shows the decision.
# docs/operators/permissions.md has the details.
permissions {
  # The decision on a call that no rule matches: allow, ask or deny.
  default = "allow"

  # "allow-list": only commands that an allow rule names may run.
  commands = "rules"

  # Whether the built-in rules apply, against commands that destroy the machine.
  builtin = true

  deny "keys" {
    path   = ["~/.ssh/**", "**/*.key"]
    reason = "it holds keys"
  }

  # open asks before everything in a workspace or repository is lost, careful before any work
  # is lost or data leaves the machine, listed also runs only listed programs.
  policy = "careful"

  # Tools can neither read nor write the paths in deny, and not write those in protect. They
  # cannot write settings of editors and agents either, such as .vscode, unless writable
  # contains the name.
  paths {
    deny     = ["secrets/**"]
    protect  = ["deploy/**"]
    writable = [".gitmodules"]
  }

  ask "what others see" {
    command = ["git push *", "npm publish *"]
  }

  # A rule may change arguments. These commands have a timeout of one minute.
  allow "installing" {
    command = "npm install *"
    set     = { timeout = 60000 }
  }

  # toolhost policy test runs this.
  test "nobody pushes unasked" {
    command = "sh -c 'git push'"
    expect  = "ask"
  }
}

# A program, or a plugin (plugin = "NAME"), that receives events of calls and tools. It may
# veto or change calls and results. A program must be where tools cannot write.
# docs/operators/hooks.md describes the answers.
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

# How long the state directory keeps data. toolhost state gc deletes the rest at once.
retention {
  sessions = "2160h" # sessions that nobody used
  output   = "168h"  # files with long output
}

# The audit log records every call, with secrets masked. toolhost log shows it. The values
# of the variables in secrets are masked wherever they occur. Calls are refused while the log
# cannot be written; on_failure = "continue" runs them unrecorded.
audit {
  enabled    = true
  max_size   = "64MiB"
  max_age    = "2160h"
  secrets    = ["JIRA_PASSWORD"]
  on_failure = "stop"
}

# A quota limits the calls of a field namespace or of a principal. The name * stands for each
# one without a quota of its own. A call over a limit fails at once, with a time to try again.
quota "field:*" {
  parallel         = 16
  calls_per_minute = 600
  bytes_per_minute = "64MiB"
  breaker {
    failures = 5
    pause    = "30s"
  }
}

# A host that keeps running records sessions on tapes, which toolhost replay runs again.
# record {
#   dir      = "~/toolhost/tapes"
#   sessions = ["review-*"]
#   exclude  = ["node_modules"]
#   max_size = "256MiB"
#   keep     = 20
# }

# Traces of calls are sent to a collector that accepts OTLP over HTTP. OpenTelemetry's
# variables (OTEL_EXPORTER_OTLP_ENDPOINT, …) work without this block.
#
# tracing {
#   endpoint = "http://localhost:4318"
#   headers  = { Authorization = env("OTLP_TOKEN", "") }
#   sample   = 0.1
# }

# Handling of changed tool definitions, for plugins that are not pinned: "report" reports
# them, "approve" also blocks calls of these tools until toolhost plugin approve NAME.
trust {
  definitions = "report"
}

reload {
  # Whether a long-lived host applies changed plugins and configuration files automatically.
  # toolhost plugin reload and SIGHUP always apply them.
  watch = true

  # "compatible" refuses a plugin version that breaks callers, such as one that lacks a
  # tool, until the operator accepts it. "any" applies it.
  changes = "compatible"

  # When a configuration that allows tools more is applied: "explicit" if a reload is
  # requested, "approve" only by toolhost config reload --approve-privileges, "allow" also
  # automatically. toolhost config plan shows the privilege increases.
  privilege_increases = "explicit"
}

# The bundled plugins are used in addition to what this file configures. false uses only the
# plugins that have a block here.
bundled = true

# A plugin is a binary that serves tools. Without a path, the block configures the bundled
# plugin of this name, in the directory plugins beside the host's executable. enabled = false
# turns it off. toolhost plugin pin pins plugins to their current binaries and definitions, in
# a lock file beside this file.
plugin "read" {
  enabled = true
}

plugin "edit" {
  config {
    # The strategies that may find the text to replace, by glob. A file that matches several
    # globs has the strategies that all of them allow. Default: all nine, which are exact,
    # line-trimmed, block-anchor, whitespace-normalised, indentation-flexible,
    # escape-normalised, trimmed-boundary, context-aware and multi-occurrence.
    strategies = {
      "*.{yaml,yml}" = ["exact"]
    }

    # The maximum size of the history for undo, in MiB, for all sessions together.
    history_mb = 64
  }
}

plugin "grep" {
  config {
    # The maximum memory of all indexes, in MiB. code_query may use an eighth of it for
    # declarations. Files that do not fit are read from the disk.
    memory_mb = 512

    # How changes are noticed: by kernel "events" if possible, or by "stat" of every file
    # for each call.
    freshness = "events"

    # The time limit of a search, in seconds. It then returns what it has found.
    time_limit = 20
  }
}

# Keeps pieces of code for all sessions.
plugin "snippet" {
  config {
    # The number of versions of each snippet, and the maximum size of all, in MiB.
    versions = 20
    max_mb   = 256
  }
}

# Asks the user questions.
plugin "ask" {}

# Keeps a list of tasks for each session, which toolhost status shows in short.
plugin "todo" {}

plugin "bash" {
  # Variables added to the plugin's environment. Of the host's own variables it receives
  # only PATH, HOME, USER, the locale and a few others.
  env = {
    GOFLAGS = env("GOFLAGS", "")
  }

  # The maximum time from the start until the plugin is ready.
  start_timeout = "10s"

  # A plugin that fails this often in a row is suspended for the pause: it does not start, or
  # ends before it has answered a call. Calls then fail at once.
  restart {
    failures = 5
    pause    = "30s"
  }

  # The abilities that the kernel allows. By default bash starts programs and writes in the
  # writable roots. read, grep and snippet do neither. All others write, but start nothing.
  sandbox {
    roots = "read-write" # or "read-only", or "none"
    exec  = true         # may start programs

    # true allows the network and all services of localhost. A list allows only these hosts:
    # ["proxy.golang.org", "*.github.com:443"]
    network = false

    # "read-write" allows it to write the hooks and settings of repositories, which git runs.
    git = "protected"

    # Further directories and files. Programs outside may run what commands write there.
    read  = ["~/.m2"]
    write = []

    # For each process. Processes and threads are counted together. "unlimited" removes a default.
    limits {
      memory    = "8GiB"
      processes = 4096
      files     = 4096
      file_size = "16GiB"
      temporary = "4GiB" # each of /tmp, /var/tmp and /dev/shm, which are in memory
      cpu       = "1h"

      # For all processes together, if toolhost has a cgroup of its own to divide. Without one,
      # the host measures the memory and kills the largest process.
      total {
        memory    = "16GiB"
        processes = 2000
        cpus      = 4
      }
    }
  }
}

# Tools of a plugin with a field are called as "field:NAME tool" or "NAME:tool". An
# optional plugin is skipped if its binary does not exist.
plugin "jira" {
  path     = "plugins/jira"
  args     = ["--project", "TOOLS"]
  field    = "jira"
  optional = true

  # Plugins that start before this one and stop after it.
  depends_on = ["bash"]
  calls      = ["read", "grep"] # tools that its own code may call; each call is judged like one of the agent

  # The plugin's own configuration, checked against the schema that it declares. Errors are
  # shown at these lines.
  config {
    url = "https://jira.example.org"
  }
}

# An MCP server, whose tools are called as "field:notes tool" or "notes:tool". It runs in
# the workspace, confined like a plugin that starts programs. A sandbox block allows paths
# outside the roots and the system, and the network.
#
# field "notes" {
#   # The maximum time of a call without progress, and until the server has listed its tools.
#   timeout       = "2m"
#   start_timeout = "30s"
#
#   mcp {
#     command = ["node", "/srv/notes/server.js"]
#     env     = { NOTES_TOKEN = env("NOTES_TOKEN", "") }
#     cwd     = "notes" # default: the workspace
#     # What of the server is offered to MCP clients, and what it may ask of them.
#     offer = ["tools", "prompts", "resources", "completions", "logging"] # default: tools
#     allow = ["elicitation", "elicitation-url", "sampling", "roots"]     # default: elicitation
#     # Each session has a connection of its own. Default: "shared", or "client" if allow has
#     # sampling or roots.
#     sessions = "client"
#   }
#
#   sandbox {
#     network = true
#     read    = ["/srv/notes"]
#   }
# }

# A server that runs elsewhere, reached by streamable HTTP. Once its list of tools is known,
# nothing starts for it until one of them is called.
#
# field "tracker" {
#   mcp {
#     url     = "https://tracker.example.org/mcp"
#     headers = { Authorization = "Bearer ${env("TRACKER_TOKEN", "")}" }
#   }
# }

# Functions as OpenAI's and Anthropic's interfaces define them, called as "field:weather
# current" or "weather:current". Their definitions are in a file, or written here, as JSON
# text or HCL. In HCL, positional arguments are in alphabetical order. A function is backed
# by an HTTP endpoint, or by a program. The program reads a call's arguments as JSON from
# standard input, and the function's name from TOOLHOST_FUNCTION. It prints the answer.
#
# field "weather" {
#   function {
#     file      = "functions.json"
#     command   = ["./weather.py"]
#     env       = { UNITS = "metric" }
#     read_only = true # an interrupted call may be repeated
#     # cwd        = "weather" # default: the session's directory
#     # concurrent = true      # calls may run concurrently
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
#     # Arguments that are not in the URL become the query of a GET or DELETE, and a JSON body
#     # otherwise. The default method is POST.
#     url     = "https://weather.example.org/v1/cities/{city}"
#     method  = "GET"
#     headers = { Authorization = "Bearer ${env("WEATHER_TOKEN", "")}" }
#   }
# }

# Another name for a tool, with further names for its parameters. A name that begins with a
# dash is a short flag.
alias "search" {
  tool = "grep"
  params = {
    regex = "pattern"
    where = "path"
    "-i"  = "ignore_case"
  }
}

# Settings for one tool.
tool "bash" {
  enabled = true
}

tool "grep" {
  timeout = local.quick

  # The maximum numbers of calls that run and that wait, of all sessions. Further calls fail
  # at once.
  max_concurrent = 8
  queue          = 100

  # The number of attempts of a read-only call if the plugin ends during it.
  attempts    = var.retries
  retry_delay = "50ms"

  # The tool that is called instead if this one is unavailable or too slow. Parameters may
  # have other names there. Parameters that it does not have are dropped.
  fallback {
    tool = "glob"
    # params = { pattern = "glob" }
  }
}

# Values that differ between installations. They come from --var, --var-file,
# toolhost.hclvars beside this file or TOOLHOST_VAR_NAME, else from the default.
# docs/configuration.md lists the functions.
variable "retries" {
  description = "The number of attempts of a read-only call."
  type        = number
  default     = 3
}

locals {
  quick = "${var.retries * 10}s"
}
