package conformance

// checks lists all checks in the order in which they run. Later checks use results of earlier checks.
var checks = []check{
	{
		id: "handshake", title: "it writes the handshake line within 10 seconds", section: "Start", begins: true, run: checkHandshake,
		fix: "Listen on a Unix socket, serve gRPC on it, then write 1|2|unix|PATH|grpc| and a newline to standard output, and flush it.",
	},
	{
		id: "stdout", title: "nothing is on standard output before the handshake line", section: "Start", begins: true, run: checkStdout,
		fix: "Print to standard error; libraries may have to be told to.",
	},
	{
		id: "socket", title: "the socket is where the host wants it", section: "Start", begins: true, run: checkSocket,
		fix: "Make the socket in the directory that PLUGIN_UNIX_SOCKET_DIR names, and announce its absolute path.",
	},
	{
		id: "by-hand", title: "started by hand, it explains so and exits", section: "Start", begins: true, run: checkByHand,
		fix: "Without the right TOOLHOST_PLUGIN in the environment, say on standard error that this is a plugin for toolhost, and exit with status 1.",
	},
	{
		id: "describe", title: "Describe always returns the same", section: "Describe", begins: true, run: checkDescribe,
		fix: "Leave out of Describe whatever changes: times, random ids, the order of a hash map, the state of another service. Tools that are found out need the capability discovery.",
	},
	{
		id: "configure", title: "it takes its configuration", section: "Configure", begins: true, run: checkConfigure,
		fix: "Have Configure answer a valid configuration without a diagnostic of severity error, and give --calls what the plugin needs to be configured with.",
	},
	{
		id: "definitions", title: "the definitions are valid", section: "Describe", begins: true, run: checkDefinitions,
		fix: "Correct the definitions; a host refuses a tool whose definition is not valid.",
	},
	{
		id: "bad-config", title: "it survives a bad configuration, and refuses with a diagnostic", section: "Configure", run: checkBadConfig,
		fix: "Answer with a diagnostic of severity error, with a summary and the path of the wrong value; do not fail the procedure or exit.",
	},
	{
		id: "health", title: "Health answers", section: "Health, Drain, end", run: checkHealth,
		fix: "Answer for the plugin and for each of its tools, with STATUS_NOT_FOUND for any other name.",
	},
	{
		id: "calls", title: "calls with valid arguments have a result", section: "Call", run: checkCalls,
		fix: "Every call that satisfies the input schema must work, or fail with a Result that explains why. Make the schema exclude what is not allowed.",
	},
	{
		id: "messages", title: "the messages of a call come in order", section: "Call", run: checkMessages,
		fix: "Send Progress, Output, Ask and FileStateQuery first, then one Result, then end the stream with the status OK.",
	},
	{
		id: "results", title: "results are what they should be", section: "Call", run: checkResults,
		fix: "Correct the Result: data that satisfies output_schema, an error with a kind and a message, absolute paths.",
	},
	{
		id: "examples", title: "the examples in the definitions work", section: "Describe", run: checkExamples,
		fix: "Correct the example or the schema: agents imitate examples.",
	},
	{
		id: "bad-arguments", title: "bad arguments do no harm", section: "Call", run: checkBadArguments,
		fix: "Answer with a Result whose error has the kind invalid_arguments. A host checks arguments, but a plugin must not depend on it for its life.",
	},
	{
		id: "unknown-tool", title: "an unknown tool is not found", section: "Discovery", run: checkUnknownTool,
		fix: "Answer with a Result whose error has the kind not_found; a call may come for a tool that an older version of the plugin had.",
	},
	{
		id: "unknown-fields", title: "what a later host may say is ignored", section: "Messages", run: checkUnknownFields,
		fix: "Ignore fields, messages and capabilities that are not known.",
	},
	{
		id: "cancel", title: "a canceled call ends within 3 seconds, with a result", section: "Call", run: checkCancel,
		fix: "Read the stream while the tool runs; on Cancel stop the tool, and give a Result with an error of the kind canceled.",
	},
	{
		id: "deadline", title: "a call whose time is over ends within 3 seconds, with a result", section: "Call", run: checkDeadline,
		fix: "On Cancel with REASON_DEADLINE stop the tool, and give a Result with an error of the kind timeout.",
	},
	{
		id: "reset", title: "calls that the host abandons do no harm", section: "Call", run: checkReset,
		fix: "Take a stream that is reset as a cancel: stop the tool, and go on serving others.",
	},
	{
		id: "large", title: "messages of 16 MiB get through", section: "Messages", run: checkLarge,
		fix: "Raise the limits of the gRPC server for received and sent messages to 64 MiB (67108864 bytes); they are 4 MiB by default.",
	},
	{
		id: "concurrent", title: "50 calls run at once", section: "Call", run: checkConcurrent,
		fix: "Let any number of calls run at once: a thread or a task for each, no lock around them, and no state that they share without one.",
	},
	{
		id: "shared-stream", title: "calls on a shared stream have their results, and it stays open", section: "Calls", run: checkShared,
		fix: "Go on reading while calls run and after them, do not end the stream, and ignore messages for calls that there are not; or leave the capability calls out.",
	},
	{
		id: "drain", title: "Drain refuses new calls and lets running ones end", section: "Health, Drain, end", run: checkDrain,
		fix: "From Drain on answer calls with an error of the kind unavailable; answer Drain when no call runs, and after grace_ms cancel those that do.",
	},
	{
		id: "lifeline", title: "it ends when the host is gone", section: "Health, Drain, end", run: checkLifeline,
		fix: "Read from the descriptor that TOOLHOST_LIFELINE_FD names, in a thread of its own from the start on; at its end cancel what runs and exit within 2 seconds.",
	},
	{
		id: "restart", title: "killed in a call, it starts again", section: "Configure", run: checkRestart,
		fix: "Make the state directory survive a kill at any moment: write files by renaming, and use locks that the kernel releases.",
	},
	{
		id: "beside", title: "several processes use one state directory", section: "Configure", run: checkBeside,
		fix: "Do not lock the state directory for as long as the process runs: several hosts may, and a new version runs beside the old one for a moment.",
	},
}
