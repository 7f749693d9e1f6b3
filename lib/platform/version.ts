/** Of the descriptions: the package's own. */
export const VERSION = '2.0.0';
