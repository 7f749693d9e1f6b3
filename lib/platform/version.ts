/** Of the descriptions: the package's own. */
export const VERSION = '0.3.0';
