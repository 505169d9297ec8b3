package conformance

// checks lists all checks in the order in which they run. Later checks use results of earlier checks.
var checks = []check{
	{
		id: "handshake", title: "the plugin writes the handshake line within 10 seconds", section: "Start", begins: true, run: checkHandshake,
		fix: "Listen on a Unix socket, serve gRPC on it, then write 1|2|unix|PATH|grpc| and a newline to standard output, and flush it.",
	},
	{
		id: "stdout", title: "nothing is on standard output before the handshake line", section: "Start", begins: true, run: checkStdout,
		fix: "Print to standard error; libraries may need a setting for this.",
	},
	{
		id: "socket", title: "the socket is in the directory that the host names", section: "Start", begins: true, run: checkSocket,
		fix: "Make the socket in the directory that PLUGIN_UNIX_SOCKET_DIR names, and announce its absolute path.",
	},
	{
		id: "by-hand", title: "a plugin started by hand prints an explanation and exits", section: "Start", begins: true, run: checkByHand,
		fix: "Without the right TOOLHOST_PLUGIN in the environment, print to standard error that this is a plugin for toolhost, and exit with status 1.",
	},
	{
		id: "describe", title: "Describe always returns the same", section: "Describe", begins: true,
		run: checkDescribe,
		fix: "Return nothing in Describe that changes: times, random ids, the order of a hash map, the state of another service. If the tools depend on the configuration, declare the capability discovery.",
	},
	{
		id: "configure", title: "the plugin accepts its configuration", section: "Configure", begins: true,
		run: checkConfigure,
		fix: "Answer Configure without a diagnostic of severity error if the configuration is valid. Put the configuration that the plugin needs into the file of --calls.",
	},
	{
		id: "definitions", title: "the definitions are valid", section: "Describe", begins: true, run: checkDefinitions,
		fix: "Correct the definitions; a host refuses a tool whose definition is not valid, and ignores a wrong role.",
	},
	{
		id: "bad-config", title: "the plugin rejects a bad configuration with a diagnostic and does not exit", section: "Configure", run: checkBadConfig,
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
		id: "results", title: "results are valid", section: "Call", run: checkResults,
		fix: "Correct the Result: data that satisfies output_schema, an error with a kind and a message, absolute paths.",
	},
	{
		id: "examples", title: "the examples in the definitions work", section: "Describe", run: checkExamples,
		fix: "Correct the example or the schema: agents imitate examples.",
	},
	{
		id: "bad-arguments", title: "bad arguments do no harm", section: "Call", run: checkBadArguments,
		fix: "Answer with a Result whose error has the kind invalid_arguments. A host checks arguments, but a plugin must not crash on unchecked ones.",
	},
	{
		id: "unknown-tool", title: "an unknown tool is not found", section: "Discovery", run: checkUnknownTool,
		fix: "Answer with a Result whose error has the kind not_found; a host may call a tool that only an older version of the plugin had.",
	},
	{
		id: "unknown-fields", title: "unknown fields and messages of later hosts are ignored", section: "Messages", run: checkUnknownFields,
		fix: "Ignore unknown fields, messages and capabilities.",
	},
	{
		id: "cancel", title: "a canceled call ends within 3 seconds, with a result", section: "Call", run: checkCancel,
		fix: "Read the stream while the tool runs; on Cancel stop the tool, and send a Result with an error of the kind canceled.",
	},
	{
		id: "deadline", title: "a call that exceeds its deadline ends within 3 seconds, with a result", section: "Call", run: checkDeadline,
		fix: "On Cancel with REASON_DEADLINE stop the tool, and send a Result with an error of the kind timeout.",
	},
	{
		id: "reset", title: "calls that the host abandons do no harm", section: "Call", run: checkReset,
		fix: "Handle a reset stream like Cancel: stop the tool, and continue to serve other calls.",
	},
	{
		id: "large", title: "messages of 16 MiB get through", section: "Messages", run: checkLarge,
		fix: "Raise the limits of the gRPC server for received and sent messages to 64 MiB (67108864 bytes); they are 4 MiB by default.",
	},
	{
		id: "concurrent", title: "50 calls run at once", section: "Call", run: checkConcurrent,
		fix: "Run any number of calls at once: use a thread or task for each call, no lock around calls, and a lock for shared state.",
	},
	{
		id: "shared-stream", title: "calls on a shared stream have their results, and it stays open", section: "Calls", run: checkShared,
		fix: "Read while calls run and after they end, do not end the stream, and ignore messages for unknown calls. Or do not declare the capability calls.",
	},
	{
		id: "drain", title: "Drain refuses new calls and lets running ones end", section: "Health, Drain, end", run: checkDrain,
		fix: "After Drain, answer new calls with an error of the kind unavailable. Answer Drain when no call runs. After grace_ms, cancel the running calls.",
	},
	{
		id: "lifeline", title: "the plugin exits when the host ends", section: "Health, Drain, end", run: checkLifeline,
		fix: "From the start on, read from the descriptor that TOOLHOST_LIFELINE_FD names, in a separate thread. At the end of file, cancel all calls and exit within 2 seconds.",
	},
	{
		id: "restart", title: "a plugin killed during a call can start again", section: "Configure", run: checkRestart,
		fix: "Make the state directory survive a kill at any moment: write files by renaming, and use locks that the kernel releases.",
	},
	{
		id: "beside", title: "several processes use one state directory", section: "Configure", run: checkBeside,
		fix: "Do not lock the state directory for the whole life of the process: several hosts can use it, and a new version runs beside the old one for a moment.",
	},
}
