/** Of the descriptions: the package's own. */
export const VERSION = '1.5.0';
