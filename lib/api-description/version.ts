/** Of the descriptions: the package's own. */
export const VERSION = '0.2.0';
