/** Tells the parent that this process is loaded, and waits until it is to begin. */
export async function loaded(): Promise<void> {
  // Its parent is gone.
  process.on('disconnect', () => process.exit());
  const begins = new Promise((resolve) => process.once('message', resolve));
  process.send?.('is loaded');
  await begins;
}
