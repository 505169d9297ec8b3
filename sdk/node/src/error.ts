/** The kinds of errors, in the order of the protocol. */
export const kinds = ["", "not_found", "invalid_arguments", "permission_denied", "security", "timeout", "canceled", "unavailable", "conflict",
  "execution_failed", "internal"] as const;

export type Kind = Exclude<(typeof kinds)[number], "">;

/**
 * A failed call. The message names the problem and the remedy. After an error of the kind "unavailable" with retryAfter
 * (seconds), the host repeats read-only and idempotent tools, never sooner. Without it, the host does not repeat the call.
 */
export class ToolError extends Error {
  constructor(readonly kind: Kind, message: string, readonly options: { code?: number; retryAfter?: number; data?: unknown } = {}) {
    super(message);
  }
}

/** A refused configuration. The path leads to the value: names and indices. */
export class ConfigError extends Error {
  constructor(message: string, readonly path: (string | number)[] = [], readonly detail = "") {
    super(message);
  }
}
