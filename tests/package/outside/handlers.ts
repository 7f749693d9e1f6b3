interface Client {
  query(text: string, values: unknown[]): Promise<unknown>;
}

interface Captured {
  readonly payload: { readonly intentId: string; readonly amountMinor: number };
}

/** A component's handlers, apart from its server. */
export const handlers = {
  'payment.captured': async ({ payload: { intentId, amountMinor } }: Captured, client: Client) => {
    await client.query('insert into entries values ($1, $2)', [intentId, amountMinor]);
  },
};
