/** The rights that operators can have. */
export const SCOPES = ['event-bus:read', 'event-bus:replay', 'event-bus:reveal', 'event-bus:erase'] as const;

export type Scope = (typeof SCOPES)[number];
